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

/* The next event; there is one, or comes one. */
static struct ibv_async_event next_event(struct pair *pair)
{
	struct ibv_async_event event;

	CHECK_EQ(ibv_get_async_event(pair->context, &event), 0);
	return event;
}

static void to_state(struct ibv_qp *qp, enum ibv_qp_state state, int more, bool notify)
{
	struct ibv_qp_attr attr = { .qp_state = state, .en_sqd_async_notify = notify };

	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | more), 0);
}

/* IBTA 10.3.1, SQD: what was begun ends, then the event comes, if it was asked for. */
static void a_drained_send_queue(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_qp_init_attr init;
	struct ibv_async_event event;
	struct ibv_qp_attr attr;

	send_empty(pair);
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
	to_state(pair->qp[0], IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY, true);
	event = next_event(pair);
	CHECK_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
	CHECK(event.element.qp == pair->qp[0]);
	CHECK_EQ(ibv_query_qp(pair->qp[0], &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_SQD);
	CHECK_EQ(attr.cur_qp_state, IBV_QPS_SQD);
	CHECK_EQ(attr.sq_draining, 0);
	CHECK_EQ(attr.en_sqd_async_notify, 1);
	CHECK_EQ(attr.sq_psn, 101);
	CHECK_EQ(pair->qp[0]->state, IBV_QPS_SQD);

	/* Some attributes change there, and what is posted there leaves in RTS. */
	attr = (struct ibv_qp_attr){ .timeout = 15, .retry_cnt = 3 };
	CHECK_EQ(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT), 0);
	attr = (struct ibv_qp_attr){ .path_mtu = IBV_MTU_256 };
	CHECK_EQ(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_PATH_MTU), EINVAL);
	send_empty(pair);
	to_state(pair->qp[0], IBV_QPS_RTS, 0, false);
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
	CHECK_EQ(ibv_query_qp(pair->qp[0], &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.timeout, 15);
	CHECK_EQ(attr.retry_cnt, 3);
	CHECK_EQ(attr.sq_psn, 102);
	CHECK_EQ(ibv_query_qp(pair->qp[1], &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.rq_psn, 102);
	ibv_ack_async_event(&event);
	close_pair(pair);
}

/* IBTA C11-39: the CQ is lost and says so, and its QPs go to the error state and say so, too. */
static void a_cq_that_overruns(void)
{
	struct pair *pair = open_pair();
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_async_event events[2];
	struct ibv_cq *small = ibv_create_cq(pair->context, 1, pair, pair->channel, 0);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;
	int i;

	CHECK(small != NULL);
	CHECK_EQ(ibv_destroy_cq(pair->cq[0]), 0);
	pair->cq[0] = small;
	for (i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex attr = qp_attr_of(pair, i);

		pair->qp[i] = ibv_create_qp_ex(pair->context, &attr);
		CHECK(pair->qp[i] != NULL);
	}
	connect_pair(pair);
	for (i = 0; i < 2; i++) {
		post_receive(pair, 1, i);
		CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	}
	events[0] = next_event(pair);
	CHECK_EQ(events[0].event_type, IBV_EVENT_CQ_ERR);
	CHECK(events[0].element.cq == small);
	events[1] = next_event(pair);
	CHECK_EQ(events[1].event_type, IBV_EVENT_QP_FATAL);
	CHECK(events[1].element.qp == pair->qp[0]);
	/* What came in time is still there. */
	CHECK_EQ(ibv_poll_cq(small, 1, &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK(ibv_poll_cq(small, 1, &wc) < 0);
	CHECK_EQ(ibv_query_qp(pair->qp[0], &attr, IBV_QP_STATE, &init), 0);
	CHECK_EQ(attr.qp_state, IBV_QPS_ERR);
	CHECK_EQ(attr.cur_qp_state, IBV_QPS_ERR);
	for (i = 0; i < 2; i++)
		ibv_ack_async_event(&events[i]);
	close_pair(pair);
}

/* IBTA 10.3.1: COMM_EST tells a server whose client's last message of its connection manager was lost. */
static void the_first_packet_in_rtr(void)
{
	struct pair *pair = open_pair();
	struct ibv_async_event event;
	int i;

	for (i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex attr = qp_attr_of(pair, i);

		pair->qp[i] = ibv_create_qp_ex(pair->context, &attr);
		CHECK(pair->qp[i] != NULL);
		CHECK_EQ(to_init(pair->qp[i]), 0);
	}
	for (i = 0; i < 2; i++)
		CHECK_EQ(to_rtr(pair->qp[i], pair->qp[!i]->qp_num), 0);
	CHECK_EQ(to_rts(pair->qp[0]), 0);
	send_empty(pair);
	event = next_event(pair);
	CHECK_EQ(event.event_type, IBV_EVENT_COMM_EST);
	CHECK(event.element.qp == pair->qp[1]);
	CHECK_EQ(completion(pair->cq[1]).status, IBV_WC_SUCCESS);
	ibv_ack_async_event(&event);
	CHECK_EQ(to_rts(pair->qp[1]), 0);
	close_pair(pair);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "completion_channel", completion_channel },
		{ "a_blocking_reader_is_woken", a_blocking_reader_is_woken },
		{ "a_cq_waits_for_its_acknowledgements", a_cq_waits_for_its_acknowledgements },
		{ "unread_events_do_not_hold_a_cq", unread_events_do_not_hold_a_cq },
		{ "asynchronous_events", asynchronous_events },
		{ "a_drained_send_queue", a_drained_send_queue },
		{ "a_cq_that_overruns", a_cq_that_overruns },
		{ "the_first_packet_in_rtr", the_first_packet_in_rtr },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
