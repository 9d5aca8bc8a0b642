/* Data that has to arrive as it was, whatever its size and however it was posted. */
#include "ends.h"

#define GUARD 64
#define RECV_OFFSET (BUFFER_SIZE / 2)

/* One message of each kind; the bytes around its target stay as they were. */
static void move(struct end *a, struct end *b, uint32_t length)
{
	uint8_t *target = b->buffer + GUARD;
	char what[64];

	fill(a->buffer + GUARD, length, length);
	for (int kind = 0; kind < 3; kind++) {
		static const char *const names[] = { "SEND", "WRITE", "READ" };
		struct end *reader = kind == 2 ? b : a, *owner = kind == 2 ? a : b;

		snprintf(what, sizeof what, "%s of %u", names[kind], length);
		memset(b->buffer, 0xee, length + 2 * GUARD);
		if (kind == 0) {
			post_recv(b, 7, GUARD, length);
			post(a, b, 1, IBV_WR_SEND, GUARD, length);
			struct ibv_wc wc = expect(b, 7, IBV_WC_SUCCESS);
			CHECK(wc.byte_len == length, "%s: byte_len %u", what, wc.byte_len);
			expect(a, 1, IBV_WC_SUCCESS);
		} else {
			post(reader, owner, 1, kind == 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, GUARD, length);
			expect(reader, 1, IBV_WC_SUCCESS);
		}
		expect_filled(target, length, length, what);
		expect_all(target - GUARD, GUARD, 0xee, what);
		expect_all(target + length, GUARD, 0xee, what);
	}
}

static void move_all(const uint32_t *lengths, size_t count, enum ibv_mtu mtu)
{
	struct ibv_context *context = open_device();
	struct settings settings = ORDINARY;

	settings.mtu = mtu;
	struct end a = make_end(context, settings), b = make_end(context, settings);
	connect_ends(&a, &b);
	for (size_t i = 0; i < count; i++)
		move(&a, &b, lengths[i]);
	free_end(&a), free_end(&b);
	CHECK(ibv_close_device(context) == 0, "ibv_close_device");
}

/* D1 */
static void sizes_that_need_a_pad(void)
{
	static const uint32_t lengths[] = { 0, 1, 2, 3, 33, 1025 };

	move_all(lengths, 6, IBV_MTU_1024);
}

/* D20 */
static void sizes_around_the_mtu(void)
{
	for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
		uint32_t bytes = 128u << mtu;
		uint32_t lengths[] = { bytes - 1, bytes, bytes + 1, 2 * bytes - 1, 2 * bytes, 2 * bytes + 1, 1025 };

		move_all(lengths, 7, mtu);
	}
}

/* D8: the SEND takes its bytes from where the READ puts them, so it has to wait for it. */
static void a_fenced_send_waits_for_the_read_before_it(void)
{
	struct ibv_context *context = open_device();
	struct end a = make_end(context, ORDINARY), b = make_end(context, ORDINARY);
	const uint32_t length = 200000;

	connect_ends(&a, &b);
	for (uint32_t round = 0; round < 20; round++) {
		struct ibv_sge target = sge_at(&a, 0, length), inside = sge_at(&a, 0, length);
		struct ibv_send_wr read = wr_of(&b, 1, IBV_WR_RDMA_READ, &target, 0);
		struct ibv_send_wr send = wr_of(&b, 2, IBV_WR_SEND, &inside, 0);
		struct ibv_sge word = sge_at(&a, RECV_OFFSET, 4);
		struct ibv_send_wr write = wr_of(&b, 3, IBV_WR_RDMA_WRITE, &word, BUFFER_SIZE - 4);

		fill(b.buffer, length, round);
		memset(a.buffer, 0, length);
		post_recv(&b, 9, RECV_OFFSET, length);
		send.send_flags |= IBV_SEND_FENCE;
		read.next = &send;
		send.next = &write;
		post_wr(&a, &read);
		for (uint64_t wr_id = 1; wr_id <= 3; wr_id++)
			expect(&a, wr_id, IBV_WC_SUCCESS);
		expect(&b, 9, IBV_WC_SUCCESS);
		expect_filled(b.buffer + RECV_OFFSET, length, round, "the fenced SEND");
	}
	free_end(&a), free_end(&b);
}

/* Atomics give back what was there and leave what they should. */
static void atomics(void)
{
	struct ibv_context *context = open_device();
	struct end a = make_end(context, ORDINARY), b = make_end(context, ORDINARY);
	uint64_t *result = (uint64_t *)a.buffer, *word = (uint64_t *)b.buffer;

	connect_ends(&a, &b);
	for (uint64_t round = 0; round < 1000; round++) {
		struct ibv_sge sge = sge_at(&a, 0, 8);
		struct ibv_send_wr wr = wr_of(&b, round, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 0);

		wr.wr.atomic.remote_addr = (uintptr_t)word;
		wr.wr.atomic.rkey = b.mr->rkey;
		wr.wr.atomic.compare_add = 3;
		post_wr(&a, &wr);
		expect(&a, round, IBV_WC_SUCCESS);
		CHECK(*result == 3 * round, "the original value is %llu", (unsigned long long)*result);
	}
	for (int equal = 0; equal < 2; equal++) {
		struct ibv_sge sge = sge_at(&a, 0, 8);
		struct ibv_send_wr wr = wr_of(&b, 1, IBV_WR_ATOMIC_CMP_AND_SWP, &sge, 0);

		wr.wr.atomic.remote_addr = (uintptr_t)word;
		wr.wr.atomic.rkey = b.mr->rkey;
		wr.wr.atomic.compare_add = equal ? 3000 : 1;
		wr.wr.atomic.swap = 0x123456789abcdef0;
		post_wr(&a, &wr);
		expect(&a, 1, IBV_WC_SUCCESS);
		CHECK(*result == 3000, "the original value is %llu", (unsigned long long)*result);
		CHECK(*word == (equal ? 0x123456789abcdef0 : 3000), "the new value is %llx", (unsigned long long)*word);
	}
	free_end(&a), free_end(&b);
}

MAIN({ "sizes_that_need_a_pad", sizes_that_need_a_pad }, { "sizes_around_the_mtu", sizes_around_the_mtu },
     { "a_fenced_send_waits_for_the_read_before_it", a_fenced_send_waits_for_the_read_before_it },
     { "atomics", atomics })
