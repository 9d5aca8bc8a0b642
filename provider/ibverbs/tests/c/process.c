/* What a process may do around the library: signals, forks, descriptors that are closed. */
#include "case.h"
#include <signal.h>

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

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "blocked_signals_wait_for_the_application", blocked_signals_wait_for_the_application },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
