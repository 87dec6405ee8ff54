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

/// Throws std::invalid_argument with `why`.
[[noreturn]] void refuse_pickle(const std::string& why);

/// Builds the values of a pickle without executing its calls. An allow-list contains the few names
/// that construct tensors and plain containers, which the builder constructs itself. All
/// constructed values are counted, so a few bytes cannot request more memory than is available.
/// Throws like read_pickle().
class PickleBuilder {
 public:
  /// Adds `count` to the number of constructed values. Throws if there are too many.
  void spend(std::size_t count);

  template <typename T>
  PickledValue* make(T data) {
    PickledValue* value = &pickle_.values.emplace_back();
    value->data = std::move(data);
    return value;
  }

  /// Returns the class or function with that name. Throws ForbiddenPickle if it is not on the
  /// allow-list.
  PickledValue* global(std::string_view module, std::string_view name);
  /// Returns the value that calling `called` with `arguments` would return.
  PickledValue* call(const PickledValue* called, const PickledValue* arguments);
  /// Returns the storage that `id` identifies: ('storage', type, key, device, count[, view]). In
  /// the oldest files, the view is (key, offset, count).
  PickledValue* storage(const PickledValue* id);
  /// Appends items to a list, or sets alternating keys and values in a dictionary. Has no effect on
  /// opaque values.
  static void append(PickledValue* list, const PickledValues& items);
  static void set(PickledValue* map, const PickledValues& items);
  /// Sets the attributes of `value` from `state`, if it is a TorchScript object, which is
  /// represented by a dictionary. Ignores the metadata of state dicts and the attributes of opaque
  /// values.
  void set_state(PickledValue* value, const PickledValue* state);

  /// Returns the Pickle with the result `value`, read from `length` bytes. The builder cannot be
  /// used afterward.
  Pickle finish(const PickledValue* value, std::size_t length);

  /// Returns `value` as a T. Throws "its pickle has an unexpected value instead of `what`" for
  /// other types.
  template <typename T>
  static T& as(PickledValue* value, const char* what) {
    T* data = std::get_if<T>(&value->data);
    if (!data) refuse_pickle(std::string("its pickle has an unexpected value instead of ") + what);
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
