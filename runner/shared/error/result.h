#pragma once

#include <cassert>
#include <utility>
#include <variant>

#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A value, or everything that is wrong with the input it was to be made from.
/// The shape of C++23's std::expected<T, Diagnostics>, which C++20 lacks.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Diagnostics errors) : state_(std::move(errors)) { assert(!this->errors().empty()); }
  Result(Diagnostic error) : state_(Diagnostics{std::move(error)}) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Diagnostics& errors() const { return std::get<1>(state_); }

 private:
  std::variant<T, Diagnostics> state_;
};

}  // namespace runner
