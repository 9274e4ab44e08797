#include "throwing.h"

#include <cstddef>
#include <cstdlib>
#include <new>
#include <stdexcept>

namespace {

thread_local uint64_t allocations_left = UINT64_MAX;
thread_local bool allocation_failed = false;

void* Allocate(size_t size, size_t alignment) {
  if (allocations_left == 0) {
    allocation_failed = true;
    throw std::bad_alloc();
  }
  if (allocations_left != UINT64_MAX) --allocations_left;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, size) != 0) throw std::bad_alloc();
  return memory;
}

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

int fail_allocations_after(uint64_t count) {
  const bool failed = allocation_failed;
  allocations_left = count;
  allocation_failed = false;
  return failed ? 1 : 0;
}

// The other forms of new and delete call these, in the shared library too.
void* operator new(size_t size) { return Allocate(size, alignof(std::max_align_t)); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
// But for this one with the address sanitizer, which has its own.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return Allocate(size, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
