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

/// Makes the values of a pickle. What a pickle would call is not called: an allow-list knows the
/// few names by which tensors and plain containers are made, and the builder makes those. All that
/// is made is counted, so that a few bytes cannot ask for more than there is memory. Throws as
/// read_pickle().
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

  /// A class or function of that name, if it is one that stands for something.
  PickledValue* global(std::string_view module, std::string_view name);
  /// The value that calling `called` with `arguments` would give.
  PickledValue* call(const PickledValue* called, const PickledValue* arguments);
  /// The storage that an `id` names: ('storage', type, key, where it was, count[, view]), where the
  /// oldest files have the view (key, offset, count).
  PickledValue* storage(const PickledValue* id);
  /// Puts `items` into a list, or keys and their values into a dictionary; opaque values take
  /// anything.
  static void append(PickledValue* list, const PickledValues& items);
  static void set(PickledValue* map, const PickledValues& items);
  /// Gives `value` the attributes of `state`. Only what is a dictionary has any: TorchScript
  /// objects do; what state dicts say of themselves, and the attributes of opaque values, are
  /// passed over.
  void set_state(PickledValue* value, const PickledValue* state);

  /// All that was made, whose value is `value`, from `length` bytes. The builder is spent.
  Pickle finish(const PickledValue* value, std::size_t length);

  /// What `value` holds; refuses anything else "where `what` belongs".
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
  std::unordered_map<std::string_view, std::size_t> by_key_;  // places of storages
  Pickle pickle_;
};

}  // namespace stages
