/* ibv_alloc_td(3), ibv_alloc_parent_domain(3). */
#include "case.h"

static struct ibv_pd *parent_of(struct ibv_pd *pd, struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .td = td };

	return ibv_alloc_parent_domain(pd->context, &attr);
}

/* A QP of a parent domain uses the regions of the PD behind it, and the other way round. */
static void a_parent_domain_is_its_pd(void)
{
	struct pair *pair = open_pair();
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(pair->context, &td_attr);
	struct ibv_pd *parent, *pd = pair->pd;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge,
				  .num_sge = 1 }, *bad;
	int i;

	CHECK(td != NULL && td->context == pair->context);
	parent = parent_of(pd, td);
	CHECK(parent != NULL && parent->context == pair->context);
	for (i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex attr = qp_attr_of(pair, i);

		if (!i)
			attr.pd = parent;
		pair->qp[i] = ibv_create_qp_ex(pair->context, &attr);
		CHECK(pair->qp[i] != NULL);
	}
	CHECK(pair->qp[0]->pd == parent);
	connect_pair(pair);
	mr = ibv_reg_mr(parent, pair->memory[0], 64, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr != NULL);
	post_receive(pair, 1, 1);
	post_receive(pair, 1, 2);
	sge = (struct ibv_sge){ (uintptr_t)pair->memory[0], 8, mr->lkey };
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	sge.lkey = pair->mr[0]->lkey;
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	for (i = 0; i < 2; i++)
		CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);

	/* Each is held by what is made of it. */
	CHECK_EQ(ibv_dealloc_td(td), EBUSY);
	CHECK_EQ(ibv_dealloc_pd(parent), EBUSY);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_destroy_qp(pair->qp[0]), 0);
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	CHECK_EQ(ibv_dealloc_td(td), 0);
	CHECK_EQ(ibv_destroy_qp(pair->qp[1]), 0);
	for (i = 0; i < 2; i++)
		CHECK_EQ(ibv_dereg_mr(pair->mr[i]), 0);
	parent = parent_of(pd, NULL);
	CHECK(parent != NULL);
	CHECK_EQ(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
}

static void a_cq_of_a_parent_domain(void)
{
	struct ibv_context *context = open_loopback();
	struct ibv_pd *pd = ibv_alloc_pd(context), *parent = parent_of(pd, NULL);
	struct ibv_cq_init_attr_ex attr = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = parent };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);

	CHECK(cq != NULL);
	CHECK_EQ(ibv_dealloc_pd(parent), EBUSY);
	CHECK_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	CHECK_EQ(ibv_dealloc_pd(parent), 0);
	/* A PD that is no parent domain says nothing about threads. */
	attr.parent_domain = pd;
	CHECK_NULL(ibv_create_cq_ex(context, &attr), EINVAL);
	attr.parent_domain = NULL;
	CHECK_NULL(ibv_create_cq_ex(context, &attr), EINVAL);
	CHECK_EQ(ibv_dealloc_pd(pd), 0);
	CHECK_EQ(ibv_close_device(context), 0);
}

static void what_is_refused(void)
{
	struct ibv_context *context = open_loopback(), *other = open_loopback();
	struct ibv_td_init_attr td_attr = { .comp_mask = 1 };
	struct ibv_pd *pd = ibv_alloc_pd(context), *parent = parent_of(pd, NULL);
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS };
	struct ibv_td *td;

	CHECK_NULL(ibv_alloc_td(context, &td_attr), EOPNOTSUPP);
	CHECK_NULL(ibv_alloc_parent_domain(context, &attr), EOPNOTSUPP);
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	CHECK_NULL(ibv_alloc_parent_domain(context, &attr), EOPNOTSUPP);
	attr.comp_mask = 0;
	attr.pd = NULL;
	CHECK_NULL(ibv_alloc_parent_domain(context, &attr), EINVAL);
	attr.pd = parent;
	CHECK_NULL(ibv_alloc_parent_domain(context, &attr), EINVAL);
	attr.pd = pd;
	CHECK_NULL(ibv_alloc_parent_domain(other, &attr), EINVAL);
	td_attr.comp_mask = 0;
	td = ibv_alloc_td(other, &td_attr);
	CHECK(td != NULL);
	attr.td = td;
	CHECK_NULL(ibv_alloc_parent_domain(context, &attr), EINVAL);
	CHECK_EQ(ibv_dealloc_td(td), 0);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "a_parent_domain_is_its_pd", a_parent_domain_is_its_pd },
		{ "a_cq_of_a_parent_domain", a_cq_of_a_parent_domain },
		{ "what_is_refused", what_is_refused },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
