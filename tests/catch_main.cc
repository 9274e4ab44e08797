// main() of the Catch2 test executables. It is written out rather than taken from Catch2, because
// 2.x generates one with a macro and 3.x links one from a library; this form works with both, and
// with 2.x the library part of Catch2 is compiled here, with the same flags as the tests.
#define CATCH_CONFIG_RUNNER
#include "tests/catch.h"

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
