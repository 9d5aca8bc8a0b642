/* What a process may do around the library: signals, forks, descriptors that are closed. */
#include "case.h"
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

/* The signals that a thread of this process blocks, as a mask with bit n - 1 for signal n. */
static unsigned long long blocked_signals(const char *tid)
{
	unsigned long long mask;
	char path[64], line[256];
	FILE *status;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/status", tid);
	status = fopen(path, "r");
	CHECK(status != NULL);
	do
		CHECK(fgets(line, sizeof(line), status) != NULL);
	while (sscanf(line, "SigBlk: %llx", &mask) != 1);
	fclose(status);
	return mask;
}

/* Waits for an event, which only a thread of the library can bring, so that it has begun its work then. */
static void wait_for_the_librarys_thread(struct pair *pair)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_cq *cq;
	void *context;

	post_receive(pair, 1, 1);
	CHECK_EQ(ibv_req_notify_cq(pair->cq[1], 0), 0);
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	CHECK_EQ(ibv_get_cq_event(pair->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
}

/*
 * A program blocks a signal in all its threads to read it from a descriptor. With a thread of ours that does not block
 * it, the signal would end the process.
 */
static void signals_are_for_the_applications_threads(void)
{
	struct pair *pair = connected_pair(0);
	unsigned long long wanted = 1ull << (SIGTERM - 1) | 1ull << (SIGUSR1 - 1) | 1ull << (SIGCHLD - 1);
	struct dirent *task;
	int others = 0;
	DIR *tasks;

	wait_for_the_librarys_thread(pair);
	tasks = opendir("/proc/self/task");
	CHECK(tasks != NULL);
	while ((task = readdir(tasks))) {
		int tid = atoi(task->d_name);

		if (tid <= 0)
			continue;
		if (tid == getpid()) {
			CHECK_EQ(blocked_signals(task->d_name), 0);
			continue;
		}
		CHECK_EQ(blocked_signals(task->d_name) & wanted, wanted);
		others++;
	}
	CHECK(others > 0);
	closedir(tasks);
	close_pair(pair);
}

static void ignore(int signal)
{
}

/* Blocking calls are interrupted again and again; those with a timeout are not restarted even with SA_RESTART. */
static void signals_do_not_keep_a_device_from_opening(void)
{
	struct sigaction action = { .sa_handler = ignore };
	struct itimerval often = { { 0, 100 }, { 0, 100 } };
	int i;

	CHECK(!sigaction(SIGALRM, &action, NULL));
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	for (i = 0; i < 20; i++)
		close_pair(connected_pair(0));
}

/* How many of this process's descriptors are sockets bound to the RoCEv2 port. */
static int sockets_at_the_port(void)
{
	int fd, count = 0;

	for (fd = 0; fd < 1024; fd++) {
		struct sockaddr_in6 name;
		socklen_t len = sizeof(name);

		if (!getsockname(fd, (struct sockaddr *)&name, &len) &&
		    (name.sin6_family == AF_INET6 || name.sin6_family == AF_INET) && name.sin6_port == htons(4791))
			count++;
	}
	return count;
}

/* A child that lives on, a daemon say, would keep the port taken when its parent and the keeper have gone. */
static void a_forked_child_lets_go_of_the_port(void)
{
	struct pair *pair = connected_pair(0);
	int status = -1;
	pid_t child;

	CHECK(sockets_at_the_port() > 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK_EQ(sockets_at_the_port(), 0);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_EQ(status, 0);
	close_pair(pair);
}

/* Refusals, which are logged. */
static void refuse_some(struct pair *pair)
{
	struct ibv_send_wr wr = { .opcode = 99 }, *bad;
	int i;

	for (i = 0; i < 3; i++)
		CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), EINVAL);
}

static void messages_that_cannot_be_written(void)
{
	struct pair *pair;
	int full = open("/dev/full", O_WRONLY);

	CHECK(full >= 0);
	CHECK(!setenv("FERROCE_LOG", "trace,not=a=directive", 1));
	CHECK_EQ(dup2(full, STDERR_FILENO), STDERR_FILENO);
	pair = connected_pair(0);
	refuse_some(pair);
	close_pair(pair);
}

static pid_t writer;

static void *refuse_for_ever(void *pair)
{
	__atomic_store_n(&writer, gettid(), __ATOMIC_SEQ_CST);
	for (;;)
		refuse_some(pair);
	return NULL;
}

/* Whether a thread is in write(2) on stderr; always, on a kernel that does not show it. */
static bool is_writing_to_stderr(pid_t thread)
{
	char path[64], line[64] = "";
	FILE *call;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", thread);
	call = fopen(path, "r");
	if (!call)
		return true;
	if (!fgets(line, sizeof(line), call))
		line[0] = 0;
	fclose(call);
	return !strncmp(line, "1 0x2 ", 6);
}

/* A child forked while another thread writes a message can write its own. */
static void a_child_forked_in_the_middle_of_a_message(void)
{
	struct pair *pair;
	pthread_t thread;
	int pipe_fds[2], status = -1;
	pid_t child, tid;

	CHECK(!pipe(pipe_fds));
	CHECK(!setenv("FERROCE_LOG", "info", 1));
	CHECK_EQ(dup2(pipe_fds[1], STDERR_FILENO), STDERR_FILENO);
	pair = connected_pair(0);
	/* Nobody reads, so a message does not end. */
	CHECK(!pthread_create(&thread, NULL, refuse_for_ever, pair));
	for (;;) {
		struct pollfd full = { pipe_fds[1], POLLOUT, 0 };

		CHECK(poll(&full, 1, 0) >= 0);
		tid = __atomic_load_n(&writer, __ATOMIC_SEQ_CST);
		if (tid && !full.revents && is_writing_to_stderr(tid))
			break;
	}
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		alarm(20);
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
		/* Refused, with a message. */
		_exit(!ibv_alloc_pd(pair->context) && errno == EIO ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child);
	/* What does not hold can't be said on stderr here. */
	exit(status ? 1 : 0);
}

/*
 * A daemon that has closed its standard streams and prints nevertheless would write into whatever got their numbers: the
 * memory that the processes of the host share, or the connection to the keeper.
 */
static void closed_standard_streams(void)
{
	struct pair *pair;
	int fd;

	CHECK(!setenv("FERROCE_LOG", "trace", 1));
	for (fd = 0; fd <= STDERR_FILENO; fd++)
		close(fd);
	pair = connected_pair(0);
	refuse_some(pair);
	for (fd = 0; fd <= STDERR_FILENO; fd++)
		CHECK(fcntl(fd, F_GETFD) < 0 && errno == EBADF);
	close_pair(pair);
}

static enum ibv_wc_status status_of_a_write(struct pair *pair)
{
	struct ibv_sge sge = { (uintptr_t)pair->memory[0], 8, pair->mr[0]->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { .remote_addr = (uintptr_t)pair->memory[1],
					       .rkey = pair->mr[1]->rkey } }, *bad;

	wr.send_flags = IBV_SEND_SIGNALED;
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	return completion(pair->cq[0]).status;
}

/* Makes new QPs, whose numbers lead to another UDP source port, which takes another socket to send from. */
static void renew_qps(struct pair *pair)
{
	int i;

	for (i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex attr = qp_attr_of(pair, i);

		CHECK_EQ(ibv_destroy_qp(pair->qp[i]), 0);
		pair->qp[i] = ibv_create_qp_ex(pair->context, &attr);
		CHECK(pair->qp[i] != NULL);
	}
	connect_pair(pair);
}

/* With no socket to send from, the transport gives up; with one, all paths share it. */
static void no_descriptors_left_to_send_from(void)
{
	struct pair *pair = connected_pair(0);
	struct rlimit limit, none;
	int i;

	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = 3;
	CHECK(!setrlimit(RLIMIT_NOFILE, &none));
	CHECK_EQ(status_of_a_write(pair), IBV_WC_RETRY_EXC_ERR);

	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	renew_qps(pair);
	CHECK_EQ(status_of_a_write(pair), IBV_WC_SUCCESS);

	CHECK(!setrlimit(RLIMIT_NOFILE, &none));
	for (i = 0; i < 64; i++) {
		renew_qps(pair);
		CHECK_EQ(status_of_a_write(pair), IBV_WC_SUCCESS);
	}
	close_pair(pair);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "signals_are_for_the_applications_threads", signals_are_for_the_applications_threads },
		{ "signals_do_not_keep_a_device_from_opening", signals_do_not_keep_a_device_from_opening },
		{ "a_forked_child_lets_go_of_the_port", a_forked_child_lets_go_of_the_port },
		{ "messages_that_cannot_be_written", messages_that_cannot_be_written },
		{ "a_child_forked_in_the_middle_of_a_message", a_child_forked_in_the_middle_of_a_message },
		{ "closed_standard_streams", closed_standard_streams },
		{ "no_descriptors_left_to_send_from", no_descriptors_left_to_send_from },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
