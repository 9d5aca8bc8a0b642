/* What a process may do around the library: signals, forks, descriptors that are closed. */
#include "case.h"
#include <netinet/in.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

/* A program that has blocked a signal waits for it; no thread of ours may take it away, nor die of it. */
static void blocked_signals_wait_for_the_application(void)
{
	struct pair *pair = connected_pair(0);
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(!sigprocmask(SIG_BLOCK, &set, NULL));
	CHECK(!kill(getpid(), SIGUSR1));
	CHECK_EQ(sigwaitinfo(&set, &info), SIGUSR1);
	CHECK_EQ(info.si_pid, getpid());
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

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "blocked_signals_wait_for_the_application", blocked_signals_wait_for_the_application },
		{ "signals_do_not_keep_a_device_from_opening", signals_do_not_keep_a_device_from_opening },
		{ "a_forked_child_lets_go_of_the_port", a_forked_child_lets_go_of_the_port },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
