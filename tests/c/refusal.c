/* Requests that have to be refused, by the peer or at once, and what has to be left as it was. */
#include "ends.h"

static const uint32_t NO_KEY = 0xdeadbeef;

static struct ibv_send_wr write_with_key(struct end *a, struct end *b, struct ibv_sge *sge, uint64_t wr_id,
					 uint32_t rkey)
{
	*sge = sge_at(a, 0, 64);
	struct ibv_send_wr wr = wr_of(b, wr_id, IBV_WR_RDMA_WRITE, sge, 0);

	wr.wr.rdma.rkey = rkey;
	return wr;
}

/* D5: there is no timeout on this connection, so only the peer's NAK can end the request. */
static void a_wrong_rkey_is_refused_by_the_peer(void)
{
	struct ibv_context *context = open_device();
	struct end a = make_end(context, ORDINARY), b = make_end(context, ORDINARY);
	struct ibv_sge sge;

	connect_ends(&a, &b);
	memset(b.buffer, 0xee, 64);
	struct ibv_send_wr wr = write_with_key(&a, &b, &sge, 1, NO_KEY);
	post_wr(&a, &wr);
	expect(&a, 1, IBV_WC_REM_ACCESS_ERR);
	expect_all(b.buffer, 64, 0xee, "the peer's memory");
	free_end(&a), free_end(&b);
}

/* D6 */
static void after_an_error_everything_is_flushed_and_nothing_hangs(void)
{
	struct ibv_context *context = open_device();
	struct end a = make_end(context, ORDINARY), b = make_end(context, ORDINARY);
	struct ibv_sge sge;

	connect_ends(&a, &b);
	post(&a, &b, 1, IBV_WR_RDMA_WRITE, 0, 64);
	expect(&a, 1, IBV_WC_SUCCESS);
	for (uint64_t wr_id = 2; wr_id < 100; wr_id++) {
		struct ibv_send_wr wr = write_with_key(&a, &b, &sge, wr_id, NO_KEY);

		post_wr(&a, &wr);
		expect(&a, wr_id, wr_id == 2 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
	}
	free_end(&a), free_end(&b);
}

static void wait_s(double seconds)
{
	struct timespec time = { .tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (time_t)seconds) * 1e9) };

	nanosleep(&time, NULL);
}

/* D7: the receiver is absent for longer than all the ACK timeouts of this connection together would last. */
static void a_peer_without_receives_is_waited_for(void)
{
	struct ibv_context *context = open_device();
	struct settings settings = ORDINARY;

	settings.timeout = 16; /* 0.27 s */
	settings.retry_cnt = 1;
	settings.min_rnr_timer = 26; /* 82 ms */
	struct end a = make_end(context, settings), b = make_end(context, settings);
	connect_ends(&a, &b);
	fill(a.buffer, 3000, 1);
	post(&a, &b, 1, IBV_WR_SEND, 0, 3000);
	wait_s(2);
	expect_nothing(&a);
	post_recv(&b, 7, 0, 3000);
	expect(&b, 7, IBV_WC_SUCCESS);
	expect(&a, 1, IBV_WC_SUCCESS);
	expect_filled(b.buffer, 3000, 1, "the SEND");
	free_end(&a), free_end(&b);
}

/* D7 */
static void rnr_retries_run_out(void)
{
	struct ibv_context *context = open_device();
	struct settings settings = ORDINARY;

	settings.rnr_retry = 2;
	struct end a = make_end(context, settings), b = make_end(context, settings);
	connect_ends(&a, &b);
	post(&a, &b, 1, IBV_WR_SEND, 0, 10);
	post(&a, &b, 2, IBV_WR_SEND, 0, 10);
	expect(&a, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	expect(&a, 2, IBV_WC_WR_FLUSH_ERR);
	free_end(&a), free_end(&b);
}

/* D10 */
static void receives_of_a_failed_qp_are_flushed_in_order(void)
{
	struct ibv_context *context = open_device();
	struct end a = make_end(context, ORDINARY), b = make_end(context, ORDINARY);

	connect_ends(&a, &b);
	for (uint64_t wr_id = 100; wr_id < 108; wr_id++)
		post_recv(&b, wr_id, 0, 64);
	to_state(&b, IBV_QPS_ERR);
	for (uint64_t wr_id = 100; wr_id < 108; wr_id++)
		expect(&b, wr_id, IBV_WC_WR_FLUSH_ERR);
	expect_nothing(&b);
	free_end(&a), free_end(&b);
}

/* D15 */
static void keys_of_another_pd_are_refused(void)
{
	struct ibv_context *context = open_device();
	struct end a = make_end(context, ORDINARY), b = make_end(context, ORDINARY);
	struct end stranger = make_end(context, ORDINARY);
	struct ibv_sge sge;

	connect_ends(&a, &b);
	memset(stranger.buffer, 0xee, 64), memset(b.buffer, 0xee, 64);
	/* The R_Key is good, but not in the responder's PD. */
	struct ibv_send_wr wr = write_with_key(&a, &stranger, &sge, 1, stranger.mr->rkey);
	post_wr(&a, &wr);
	expect(&a, 1, IBV_WC_REM_ACCESS_ERR);
	expect_all(stranger.buffer, 64, 0xee, "the stranger's memory");

	/* The L_Key is good, but not in the requester's PD. */
	reconnect_ends(&a, &b);
	wr = write_with_key(&a, &b, &sge, 2, b.mr->rkey);
	sge = sge_at(&stranger, 0, 64);
	post_wr(&a, &wr);
	expect(&a, 2, IBV_WC_LOC_PROT_ERR);
	expect_all(b.buffer, 64, 0xee, "the peer's memory");
	free_end(&a), free_end(&b), free_end(&stranger);
}

/* D19: whoever looks at the log finds out which number the two sides do not agree on. */
static void a_path_mtu_mismatch_is_an_invalid_request(void)
{
	struct ibv_context *context = open_device();
	struct settings large = ORDINARY, small = ORDINARY;

	large.mtu = IBV_MTU_4096;
	small.mtu = IBV_MTU_1024;
	struct end a = make_end(context, large), b = make_end(context, small);
	connect_ends(&a, &b);
	memset(b.buffer, 0xee, 4096);
	post(&a, &b, 1, IBV_WR_RDMA_WRITE, 0, 4096);
	expect(&a, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_all(b.buffer, 4096, 0xee, "the peer's memory");
	reconnect_ends(&a, &b);
	fill(a.buffer, 512, 9);
	post(&a, &b, 2, IBV_WR_RDMA_WRITE, 0, 512);
	expect(&a, 2, IBV_WC_SUCCESS);
	expect_filled(b.buffer, 512, 9, "the small WRITE");
	free_end(&a), free_end(&b);
}

/* A message longer than the receive it meets ends both sides, each with its own status. */
static void a_receive_that_is_too_short_fails_on_both_sides(void)
{
	struct ibv_context *context = open_device();
	struct end a = make_end(context, ORDINARY), b = make_end(context, ORDINARY);

	connect_ends(&a, &b);
	memset(b.buffer, 0xee, 256);
	post_recv(&b, 7, 0, 64);
	post(&a, &b, 1, IBV_WR_SEND, 0, 65);
	expect(&b, 7, IBV_WC_LOC_LEN_ERR);
	expect(&a, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_all(b.buffer + 64, 192, 0xee, "the memory behind the receive");
	free_end(&a), free_end(&b);
}

MAIN({ "a_wrong_rkey_is_refused_by_the_peer", a_wrong_rkey_is_refused_by_the_peer },
     { "after_an_error_everything_is_flushed_and_nothing_hangs",
       after_an_error_everything_is_flushed_and_nothing_hangs },
     { "a_peer_without_receives_is_waited_for", a_peer_without_receives_is_waited_for },
     { "rnr_retries_run_out", rnr_retries_run_out },
     { "receives_of_a_failed_qp_are_flushed_in_order", receives_of_a_failed_qp_are_flushed_in_order },
     { "keys_of_another_pd_are_refused", keys_of_another_pd_are_refused },
     { "a_path_mtu_mismatch_is_an_invalid_request", a_path_mtu_mismatch_is_an_invalid_request },
     { "a_receive_that_is_too_short_fails_on_both_sides", a_receive_that_is_too_short_fails_on_both_sides })
