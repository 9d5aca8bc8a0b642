/* ibv_modify_cq(3), ibv_resize_cq(3), ibv_req_notify_cq(3). */
#include "case.h"
#include <fcntl.h>
#include <poll.h>

static void send_empty(struct pair *pair, int flags)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED | flags }, *bad;

	post_receive(pair, 1, 1);
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	/* The peer has answered, so its completion is there. */
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
}

static void moderate(struct ibv_cq *cq, uint16_t count, uint16_t period)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE,
					   .moderate = { .cq_count = count, .cq_period = period } };

	CHECK_EQ(ibv_modify_cq(cq, &attr), 0);
}

static bool has_event(struct pair *pair, int timeout_ms)
{
	struct pollfd fd = { .fd = pair->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	if (!poll(&fd, 1, timeout_ms))
		return false;
	CHECK_EQ(ibv_get_cq_event(pair->channel, &cq, &context), 0);
	CHECK(cq == pair->cq[1]);
	ibv_ack_cq_events(cq, 1);
	return true;
}

static void moderation(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_modify_cq_attr unknown = { .attr_mask = 1 << 5 };
	struct ibv_device_attr_ex device;
	int i;

	CHECK_EQ(ibv_query_device_ex(pair->context, NULL, &device), 0);
	CHECK_EQ(device.cq_mod_caps.max_cq_count, UINT16_MAX);
	CHECK_EQ(device.cq_mod_caps.max_cq_period, UINT16_MAX);
	CHECK_EQ(ibv_modify_cq(pair->cq[1], &unknown), EOPNOTSUPP);

	/* One event for three completions: the period is what it may take at most, and nobody waits for it. */
	moderate(pair->cq[1], 3, UINT16_MAX);
	CHECK_EQ(ibv_req_notify_cq(pair->cq[1], 0), 0);
	for (i = 0; i < 3; i++)
		send_empty(pair, 0);
	CHECK(has_event(pair, -1));
	CHECK(!has_event(pair, 0));

	/* One event for one completion, since the period ends. */
	moderate(pair->cq[1], 1000, 1000);
	CHECK_EQ(ibv_req_notify_cq(pair->cq[1], 0), 0);
	send_empty(pair, 0);
	CHECK(has_event(pair, -1));
	CHECK(!has_event(pair, 0));

	/* Without moderation at once. */
	moderate(pair->cq[1], 0, 0);
	CHECK_EQ(ibv_req_notify_cq(pair->cq[1], 0), 0);
	send_empty(pair, 0);
	CHECK(has_event(pair, 0));

	/* A CQ that goes away takes a held event along. */
	moderate(pair->cq[1], 1000, UINT16_MAX);
	CHECK_EQ(ibv_req_notify_cq(pair->cq[1], 0), 0);
	send_empty(pair, 0);
	close_pair(pair);
}

static void solicited_only(void)
{
	struct pair *pair = connected_pair(0);

	CHECK_EQ(ibv_req_notify_cq(pair->cq[1], 1), 0);
	send_empty(pair, 0);
	CHECK(!has_event(pair, 0));
	send_empty(pair, IBV_SEND_SOLICITED);
	CHECK(has_event(pair, 0));
	/* Any completion is more than solicited ones only, and is not narrowed. */
	CHECK_EQ(ibv_req_notify_cq(pair->cq[1], 0), 0);
	CHECK_EQ(ibv_req_notify_cq(pair->cq[1], 1), 0);
	send_empty(pair, 0);
	CHECK(has_event(pair, 0));
	close_pair(pair);
}

static void sizes(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_device_attr device;
	struct ibv_wc wc[4];
	int i;

	CHECK_EQ(ibv_query_device(pair->context, &device), 0);
	for (i = 0; i < 3; i++)
		send_empty(pair, 0);
	CHECK_EQ(ibv_resize_cq(pair->cq[1], 0), EINVAL);
	CHECK_EQ(ibv_resize_cq(pair->cq[1], -1), EINVAL);
	CHECK_EQ(ibv_resize_cq(pair->cq[1], device.max_cqe + 1), EINVAL);
	CHECK_EQ(ibv_resize_cq(pair->cq[1], 2), EINVAL);
	CHECK_EQ(pair->cq[1]->cqe, 64);
	/* Down to what it holds; asked for an event meanwhile, and full. */
	CHECK_EQ(ibv_req_notify_cq(pair->cq[1], 0), 0);
	CHECK_EQ(ibv_resize_cq(pair->cq[1], 3), 0);
	CHECK_EQ(pair->cq[1]->cqe, 3);
	CHECK(!has_event(pair, 0));
	/* Room for one more, which is what the event was asked for. */
	CHECK_EQ(ibv_resize_cq(pair->cq[1], 4), 0);
	send_empty(pair, 0);
	CHECK(has_event(pair, 0));
	CHECK_EQ(ibv_poll_cq(pair->cq[1], 4, wc), 4);
	CHECK_EQ(ibv_resize_cq(pair->cq[1], 1), 0);
	CHECK_EQ(ibv_resize_cq(pair->cq[1], device.max_cqe), 0);
	CHECK_EQ(pair->cq[1]->cqe, device.max_cqe);
	close_pair(pair);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "moderation", moderation },
		{ "solicited_only", solicited_only },
		{ "sizes", sizes },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
