/* What a process may do around the library: signals, forks, descriptors that are closed. */
#include "case.h"
#include <signal.h>
#include <sys/time.h>

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

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "blocked_signals_wait_for_the_application", blocked_signals_wait_for_the_application },
		{ "signals_do_not_keep_a_device_from_opening", signals_do_not_keep_a_device_from_opening },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
