/* Completion channels and asynchronous events, as descriptors that programs poll. */
#include "case.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>

static void make_nonblocking(int fd)
{
	CHECK(!fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
}

static int edge_triggered(int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	CHECK(epoll >= 0);
	CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
	return epoll;
}

static int edges(int epoll, int timeout_ms)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, timeout_ms);
}

static void send_empty(struct pair *pair)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

	post_receive(pair, 1, 1);
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
}

/* UCX, Mooncake, tgt and rsocket set O_NONBLOCK and expect EAGAIN; several of them poll edge-triggered. */
static void completion_channel(void)
{
	struct pair *pair = connected_pair(0);
	int epoll = edge_triggered(pair->channel->fd);
	struct ibv_cq *cq;
	void *context;
	int i;

	make_nonblocking(pair->channel->fd);
	errno = 0;
	CHECK_EQ(ibv_get_cq_event(pair->channel, &cq, &context), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(edges(epoll, 0), 0);

	for (i = 0; i < 2; i++) {
		CHECK_EQ(ibv_req_notify_cq(pair->cq[1], 0), 0);
		send_empty(pair);
		CHECK_EQ(edges(epoll, -1), 1);
		/* Without a read there is no new edge. */
		CHECK_EQ(edges(epoll, 0), 0);
		CHECK_EQ(ibv_get_cq_event(pair->channel, &cq, &context), 0);
		CHECK(cq == pair->cq[1] && context == pair);
		CHECK_EQ(ibv_get_cq_event(pair->channel, &cq, &context), -1);
		CHECK_EQ(completion(pair->cq[1]).status, IBV_WC_SUCCESS);
		CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
	}
	/* Not asked again: no event. */
	send_empty(pair);
	CHECK_EQ(completion(pair->cq[1]).status, IBV_WC_SUCCESS);
	CHECK_EQ(edges(epoll, 0), 0);
	ibv_ack_cq_events(pair->cq[1], 2);
	close_pair(pair);
}

static void *wait_for_event(void *argument)
{
	struct pair *pair = argument;
	struct ibv_cq *cq;
	void *context;

	CHECK_EQ(ibv_get_cq_event(pair->channel, &cq, &context), 0);
	CHECK(cq == pair->cq[1]);
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void a_blocking_reader_is_woken(void)
{
	struct pair *pair = connected_pair(0);
	pthread_t thread;

	CHECK_EQ(ibv_req_notify_cq(pair->cq[1], 0), 0);
	CHECK(!pthread_create(&thread, NULL, wait_for_event, pair));
	send_empty(pair);
	CHECK(!pthread_join(thread, NULL));
	close_pair(pair);
}

struct ack {
	struct ibv_cq *cq;
	bool destroyed;
};

static void *destroy_cq(void *argument)
{
	struct ack *ack = argument;

	CHECK_EQ(ibv_destroy_cq(ack->cq), 0);
	__atomic_store_n(&ack->destroyed, true, __ATOMIC_SEQ_CST);
	return NULL;
}

static void a_cq_waits_for_its_acknowledgements(void)
{
	struct pair *pair = connected_pair(0);
	struct ack ack = { pair->cq[1], false };
	pthread_t thread;
	struct ibv_cq *cq;
	void *context;

	CHECK_EQ(ibv_destroy_cq(pair->cq[1]), EBUSY);
	CHECK_EQ(pair->channel->refcnt, 2);
	CHECK_EQ(ibv_destroy_comp_channel(pair->channel), EBUSY);
	CHECK_EQ(ibv_req_notify_cq(pair->cq[1], 0), 0);
	send_empty(pair);
	CHECK_EQ(ibv_get_cq_event(pair->channel, &cq, &context), 0);
	CHECK_EQ(ibv_destroy_qp(pair->qp[0]), 0);
	CHECK_EQ(ibv_destroy_qp(pair->qp[1]), 0);

	CHECK(!pthread_create(&thread, NULL, destroy_cq, &ack));
	usleep(20000);
	CHECK(!__atomic_load_n(&ack.destroyed, __ATOMIC_SEQ_CST));
	ibv_ack_cq_events(cq, 1);
	CHECK(!pthread_join(thread, NULL));
	CHECK_EQ(pair->channel->refcnt, 1);
	CHECK_EQ(ibv_destroy_cq(pair->cq[0]), 0);
	CHECK_EQ(ibv_destroy_comp_channel(pair->channel), 0);
}

/* An event that nobody has read goes away with its CQ. */
static void unread_events_do_not_hold_a_cq(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_cq *cq;
	void *context;

	make_nonblocking(pair->channel->fd);
	CHECK_EQ(ibv_req_notify_cq(pair->cq[1], 0), 0);
	send_empty(pair);
	CHECK_EQ(completion(pair->cq[1]).status, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_destroy_qp(pair->qp[0]), 0);
	CHECK_EQ(ibv_destroy_qp(pair->qp[1]), 0);
	CHECK_EQ(ibv_destroy_cq(pair->cq[1]), 0);
	CHECK_EQ(ibv_get_cq_event(pair->channel, &cq, &context), -1);
	CHECK_EQ(errno, EAGAIN);
}

static void *destroy_qp(void *argument)
{
	CHECK_EQ(ibv_destroy_qp(argument), 0);
	return NULL;
}

static void asynchronous_events(void)
{
	struct pair *pair = connected_pair(0);
	int epoll = edge_triggered(pair->context->async_fd);
	struct ibv_sge sge = { (uintptr_t)pair->memory[0], 8, pair->mr[0]->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { .remote_addr = (uintptr_t)pair->memory[1], .rkey = 0xbad } },
			   *bad;
	struct ibv_async_event event;
	struct ibv_qp *victim = pair->qp[1];
	pthread_t thread;

	make_nonblocking(pair->context->async_fd);
	errno = 0;
	CHECK_EQ(ibv_get_async_event(pair->context, &event), -1);
	CHECK_EQ(errno, EAGAIN);

	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(edges(epoll, -1), 1);
	CHECK_EQ(edges(epoll, 0), 0);
	do {
		CHECK_EQ(ibv_get_async_event(pair->context, &event), 0);
		CHECK(event.element.qp == victim);
		if (event.event_type != IBV_EVENT_QP_ACCESS_ERR)
			ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_QP_ACCESS_ERR);

	CHECK(!pthread_create(&thread, NULL, destroy_qp, victim));
	usleep(20000);
	CHECK(pthread_tryjoin_np(thread, NULL) == EBUSY);
	ibv_ack_async_event(&event);
	CHECK(!pthread_join(thread, NULL));
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "completion_channel", completion_channel },
		{ "a_blocking_reader_is_woken", a_blocking_reader_is_woken },
		{ "a_cq_waits_for_its_acknowledgements", a_cq_waits_for_its_acknowledgements },
		{ "unread_events_do_not_hold_a_cq", unread_events_do_not_hold_a_cq },
		{ "asynchronous_events", asynchronous_events },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
