/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What two files beside libelf's, which its build compiles as well and of which nothing is linked,
 * name of glibc's argp.h. musl has none.
 */
#include <errno.h>
#include <stdio.h>

#define ARGP_ERR_UNKNOWN E2BIG
#define ARGP_HELP_SEE 4
#define OPTION_ARG_OPTIONAL 1

typedef int error_t;

struct argp_state {
	char *name;
};

struct argp_option {
	const char *name;
	int key;
	const char *arg;
	int flags;
	const char *doc;
	int group;
};

struct argp {
	const struct argp_option *options;
	error_t (*parser)(int key, char *arg, struct argp_state *state);
	const char *args_doc, *doc;
	const void *children;
	char *(*help_filter)(int key, const char *text, void *input);
	const char *argp_domain;
};

void argp_help(const struct argp *argp, FILE *stream, unsigned flags, char *name);
