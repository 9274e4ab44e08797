#include "throwing.h"

#include <new>
#include <stdexcept>

namespace {

void Throw(void* what) {
  switch (*static_cast<int*>(what)) {
    case THROW_BAD_ALLOC:
      throw std::bad_alloc();
    case THROW_INVALID_ARGUMENT:
      throw std::invalid_argument("injected argument");
    case THROW_RUNTIME_ERROR:
      throw std::runtime_error("injected failure");
    case THROW_INT:
      throw 42;
    default:
      break;
  }
}

}  // namespace

int32_t throwing_policy(const prefix_router_policy_input*, float*, void* user_data) {
  Throw(user_data);
  return PREFIX_ROUTER_OK;
}

int64_t throwing_clock(void* user_data) {
  Throw(user_data);
  return 0;
}
