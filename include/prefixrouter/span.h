// Span<T>: a borrowed, contiguous sequence. C++17 has no std::span, and the public headers need no
// more than this: a pointer, a size and the conversions that callers use.
//
//   std::vector<uint32_t> tokens = ...;
//   router->Route(tokens);                          // from any container with data() and size()
//   router->Route({buffer, buffer_length});         // from a pointer and a length
//
// A Span owns nothing: the elements must outlive the call that it is passed to. No call of this
// library keeps one after it has returned.
#ifndef PREFIXROUTER_SPAN_H_
#define PREFIXROUTER_SPAN_H_

#include <cstddef>
#include <type_traits>
#include <utility>

namespace prefixrouter {

template <typename T>
class Span {
 public:
  constexpr Span() = default;
  constexpr Span(T* data, size_t size) : data_(data), size_(size) {}

  template <size_t N>
  constexpr Span(T (&array)[N]) : data_(array), size_(N) {}

  // From any container whose data() points at T or at the same type without const.
  template <
      typename Container,
      typename = std::enable_if_t<
          !std::is_same_v<std::decay_t<Container>, Span> &&
          std::is_convertible_v<decltype(std::declval<Container&>().data()), T*> &&
          std::is_same_v<
              std::remove_cv_t<std::remove_pointer_t<decltype(std::declval<Container&>().data())>>,
              std::remove_cv_t<T>>>>
  constexpr Span(Container&& container) : data_(container.data()), size_(container.size()) {}

  constexpr T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T& operator[](size_t i) const { return data_[i]; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }

  // REQUIRES: offset <= size().
  constexpr Span subspan(size_t offset) const { return {data_ + offset, size_ - offset}; }
  // REQUIRES: offset + count <= size().
  constexpr Span subspan(size_t offset, size_t count) const { return {data_ + offset, count}; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_SPAN_H_
