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

/// An element type by its torch name: "float32".
struct ElementType {
  std::string_view name;
  std::string_view storage;  ///< "FloatStorage"; empty if torch has no typed storage for it
  std::int64_t bytes = 0;
};

/// The type with this torch name, "float32"; null if there is none.
const ElementType* element_type(std::string_view name);

/// The type whose torch storage has this name, "FloatStorage"; null if there is none.
const ElementType* element_type_of_storage(std::string_view storage);

/// A storage that tensors are views of. Its data is outside the pickle, under `key`.
struct PickledStorage {
  std::string_view key;
  const ElementType* type = nullptr;
  std::int64_t count = 0;  ///< number of elements
};

/// A view of a storage, in elements of `type`. Nothing is checked except that the numbers are
/// whole.
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

/// A dictionary, or the attributes of an object of a TorchScript module. In order; keys may repeat.
struct PickledMap {
  std::vector<std::pair<const PickledValue*, const PickledValue*>> entries;
  bool is_object = false;
};

/// A class or function by name: never looked up, never called.
struct PickledGlobal {
  std::string_view module, name;
};

/// An integer beyond 64 bits: its bytes, lowest first.
struct PickledLong {
  std::string_view bytes;
};

/// A storage or tensor, by its index in the Pickle.
struct PickledStorageIndex {
  std::size_t index = 0;
  std::int64_t offset = 0;  ///< in elements: the oldest files have views of storages
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

/// The contents of one pickle. Texts point into the bytes that were read, which must outlive it. A
/// container may contain itself.
struct Pickle {
  const PickledValue* value = nullptr;
  std::size_t length = 0;  ///< length of the pickle in bytes
  std::deque<PickledValue> values;
  std::vector<PickledStorage> storages;
  std::vector<PickledTensor> tensors;
};

/// The pickle wants to run code that is not part of a tensor.
struct ForbiddenPickle : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// Longer pickles are refused: tensor data is stored outside the pickle.
inline constexpr std::size_t kLongestPickle = 64 << 20;

/// Reads the pickle at the start of `bytes`, of protocol 2 to 5, as torch.save and TorchScript
/// write it. Constructs tensors and plain containers, and opaque values for other data that
/// training programs store. Classes and functions are recognised by an allow-list of names, and no
/// code is run. Throws std::invalid_argument with the fault in half a sentence; ForbiddenPickle for
/// any other name.
Pickle read_pickle(std::string_view bytes);

}  // namespace stages
