/*
 * symbols NAMES FOLDER: looks up every "name version" of the file NAMES in the libibverbs.so.1 that this program runs
 * on, with and without its version; then loads the provider libraries of the system, which bind at once.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int wrong;

static void look_up(void *library, const char *name, const char *version)
{
	Dl_info info;
	void *found = dlvsym(library, name, version);

	if (!found || !dladdr(found, &info)) {
		fprintf(stderr, "%s@%s is not there\n", name, version);
		wrong = 1;
	}
	if (!dlsym(library, name)) {
		fprintf(stderr, "%s has no default version\n", name);
		wrong = 1;
	}
}

static void load(const char *file, const char *folder)
{
	void *library = dlopen(file, RTLD_NOW);
	Dl_info info;
	void *ours;

	if (!library) {
		const char *why = dlerror();
		/* Not installed is not our fault; not loadable is. */
		if (strstr(why, "cannot open shared object file")) {
			printf("skipped: %s is not installed\n", file);
			return;
		}
		fprintf(stderr, "%s\n", why);
		wrong = 1;
		return;
	}
	/* The library found through the provider's own dependencies has to be the one under test. */
	ours = dlvsym(library, "ibv_open_device", "IBVERBS_1.1");
	if (!ours || !dladdr(ours, &info) || strncmp(info.dli_fname, folder, strlen(folder))) {
		fprintf(stderr, "%s runs on another libibverbs\n", file);
		wrong = 1;
	}
}

int main(int argc, char **argv)
{
	char name[128], version[64];
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	FILE *names;

	if (argc != 3 || !library || !(names = fopen(argv[1], "r")))
		return 2;
	while (fscanf(names, "%127s %63s", name, version) == 2)
		look_up(library, name, version);
	load("libmlx5.so.1", argv[2]);
	load("libefa.so.1", argv[2]);
	return wrong;
}
