/* The answers of the private names; the generated aliases follow. See private.rs. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

struct ibv_context;

extern __attribute__((visibility("hidden"))) int ferroce_query_gid_type(struct ibv_context *context, uint8_t port_num,
									unsigned int index, int *type);
extern __attribute__((visibility("hidden"))) const char *ferroce_wr_opcode_str(int opcode);

int ferroce_answer_errno(void)
{
	return EOPNOTSUPP;
}

int ferroce_answer_minus_one(void)
{
	errno = EOPNOTSUPP;
	return -1;
}

void *ferroce_answer_null(void)
{
	errno = EOPNOTSUPP;
	return 0;
}

void ferroce_answer_nothing(void)
{
}

bool ferroce_answer_flag;

int ferroce_answer_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index, int *type)
{
	return ferroce_query_gid_type(context, port_num, index, type);
}

const char *ferroce_answer_wr_opcode_str(int opcode)
{
	return ferroce_wr_opcode_str(opcode);
}

#define ALIAS(node, name, answer, at)                                                     \
	extern __typeof__(answer) p##node##_##name __attribute__((alias(#answer)));       \
	__asm__(".symver p" #node "_" #name ", " #name at "IBVERBS_PRIVATE_" #node);

