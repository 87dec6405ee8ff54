#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "stages/weights/pickle.h"

namespace stages {

/// Throws std::invalid_argument.
[[noreturn]] void refuse_pickle(const std::string& why);

/// Builds the values of a pickle. The pickle's calls are not executed: an allow-list has the few
/// names that construct tensors and plain containers, and the builder constructs those itself.
/// Everything constructed is counted, so that a few bytes cannot request more than the available
/// memory. Throws as read_pickle().
class PickleBuilder {
 public:
  /// Counts `count` values that are kept.
  void spend(std::size_t count);

  template <typename T>
  PickledValue* make(T data) {
    PickledValue* value = &pickle_.values.emplace_back();
    value->data = std::move(data);
    return value;
  }

  /// A class or function of that name, if it is on the allow-list.
  PickledValue* global(std::string_view module, std::string_view name);
  /// The value that calling `called` with `arguments` would give.
  PickledValue* call(const PickledValue* called, const PickledValue* arguments);
  /// The storage that an `id` names: ('storage', type, key, device, count[, view]); in the oldest
  /// files the view is (key, offset, count).
  PickledValue* storage(const PickledValue* id);
  /// Appends `items` to a list, or keys and their values to a dictionary; opaque values accept
  /// anything.
  static void append(PickledValue* list, const PickledValues& items);
  static void set(PickledValue* map, const PickledValues& items);
  /// Sets the attributes of `value` from `state`. Only a TorchScript object, which is a dictionary
  /// here, has any; the metadata of state dicts and the attributes of opaque values are ignored.
  void set_state(PickledValue* value, const PickledValue* state);

  /// Finishes with the result `value`, read from `length` bytes. The builder cannot be used again.
  Pickle finish(const PickledValue* value, std::size_t length);

  /// `value` as a T; refuses anything else "where `what` belongs".
  template <typename T>
  static T& as(PickledValue* value, const char* what) {
    T* data = std::get_if<T>(&value->data);
    if (!data)
      refuse_pickle(std::string("its pickle has something else where ") + what + " belongs");
    return *data;
  }
  template <typename T>
  static const T& as(const PickledValue* value, const char* what) {
    return as<T>(const_cast<PickledValue*>(value), what);
  }

 private:
  std::vector<std::int64_t> whole_numbers(const PickledValue* value, const char* what);
  PickledValue* tensor(const PickledValues& arguments, std::size_t least, std::size_t most);
  PickledValue* ordered(const PickledValues& arguments);
  std::size_t storage_index(const PickledStorage& storage);

  std::size_t spent_ = 0;
  std::unordered_map<std::string_view, std::size_t> by_key_;  // storage indices
  Pickle pickle_;
};

}  // namespace stages
