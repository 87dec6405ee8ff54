#pragma once

#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace stages {

/// An element type of tensors, identified by its torch name, such as "float32".
struct ElementType {
  std::string_view name;
  std::string_view storage;  ///< "FloatStorage"; empty if torch has no typed storage for it
  std::int64_t bytes = 0;
};

/// Returns the type with a torch name such as "float32"; null if there is none.
const ElementType* element_type(std::string_view name);

/// Returns the type with a torch storage name such as "FloatStorage"; null if there is none.
const ElementType* element_type_of_storage(std::string_view storage);

/// A storage; tensors are views of it. The data is stored outside the pickle, under `key`.
struct PickledStorage {
  std::string_view key;
  const ElementType* type = nullptr;
  std::int64_t count = 0;  ///< number of elements
};

/// A tensor: a view of a storage, in elements of `type`. Its offset, sizes and strides are integers
/// but otherwise unchecked.
struct PickledTensor {
  std::size_t storage = 0;  ///< index into Pickle::storages
  const ElementType* type = nullptr;
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes, strides;
};

struct PickledValue;
using PickledValues = std::vector<const PickledValue*>;

/// A list, a tuple, or a torch.Size.
struct PickledList {
  PickledValues items;
};

/// A dictionary, or the attributes of a TorchScript object, in order. Keys may repeat.
struct PickledMap {
  std::vector<std::pair<const PickledValue*, const PickledValue*>> entries;
  bool is_object = false;
};

/// The name of a class or function, which is never looked up and never called.
struct PickledGlobal {
  std::string_view module, name;
};

/// An integer of more than 64 bits, as little-endian bytes.
struct PickledLong {
  std::string_view bytes;
};

/// A reference to a storage or a tensor, by index in the Pickle.
struct PickledStorageIndex {
  std::size_t index = 0;
  std::int64_t offset = 0;  ///< in elements, for storage views in the oldest files
};
struct PickledTensorIndex {
  std::size_t index = 0;
};

/// A value that is neither a tensor nor a plain container: a set, a device, a numpy scalar, the
/// attributes of an object. It is neither constructed nor inspected.
struct PickledOpaque {};

struct PickledValue {
  std::variant<std::monostate, bool, std::int64_t, double, std::string_view, PickledLong,
               PickledList, PickledMap, PickledGlobal, PickledStorageIndex, PickledTensorIndex,
               PickledOpaque>
      data;
};

/// The contents of one pickle. Strings refer to the bytes that were read, which must outlive the
/// Pickle. A container may contain itself.
struct Pickle {
  const PickledValue* value = nullptr;
  std::size_t length = 0;  ///< length of the pickle in bytes
  std::deque<PickledValue> values;
  std::vector<PickledStorage> storages;
  std::vector<PickledTensor> tensors;
};

/// Thrown for a pickle that would run code for anything other than constructing tensors.
struct ForbiddenPickle : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// Longer pickles are rejected. Tensor data does not count, since it is stored outside the pickle.
inline constexpr std::size_t kLongestPickle = 64 << 20;

/// Reads the pickle at the start of `bytes`, of protocol 2 to 5, as written by torch.save and
/// TorchScript. Constructs tensors and plain containers, and opaque values for other data that
/// training programs store. Classes and functions must be on an allow-list of names; no code is
/// run. Throws ForbiddenPickle for other names, and std::invalid_argument for other errors, with a
/// clause that describes the error.
Pickle read_pickle(std::string_view bytes);

}  // namespace stages
