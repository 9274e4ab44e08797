/* The C example of README.md; scripts/test.sh checks that both are the same below this comment. */
#include <stdint.h>
#include <stdio.h>

#include "prefix_router.h"

int main(void) {
  static const uint32_t prompt[1000] = {1, 2, 3}; /* token ids, from the model's tokenizer */
  const char* const names[] = {"10.0.0.1:8000", "10.0.0.2:8000"};
  uint64_t instances[2], chosen, again;
  prefix_router* router;
  if (prefix_router_create(NULL, &router) != PREFIX_ROUTER_OK) return 1;
  for (int i = 0; i < 2; ++i) {
    prefix_router_instance_options options = {.struct_size = sizeof options, .name = names[i]};
    options.name_size = PREFIX_ROUTER_NUL_TERMINATED;
    if (prefix_router_add_instance(router, &options, &instances[i]) != PREFIX_ROUTER_OK) return 1;
  }
  if (prefix_router_route(router, prompt, 1000, &chosen) != PREFIX_ROUTER_OK ||
      prefix_router_route(router, prompt, 1000, &again) != PREFIX_ROUTER_OK) {
    fprintf(stderr, "%s\n", prefix_router_last_error());
    return 1;
  }
  printf("both to %s\n", names[chosen == instances[1]]);
  prefix_router_destroy(router);
  return chosen == again ? 0 : 1;
}
