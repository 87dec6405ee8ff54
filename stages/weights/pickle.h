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

/// A type of numbers, as torch calls it: "float32".
struct ElementType {
  std::string_view name;
  std::string_view storage;  ///< "FloatStorage"; empty where torch has no typed storage for it
  std::int64_t bytes = 0;
};

/// The type that torch calls so, "float32"; null where there is none.
const ElementType* element_type(std::string_view name);

/// The type whose storage torch calls so, "FloatStorage"; null where there is none.
const ElementType* element_type_of_storage(std::string_view storage);

/// The numbers that tensors are views of. They lie outside the pickle, under `key`.
struct PickledStorage {
  std::string_view key;
  const ElementType* type = nullptr;
  std::int64_t count = 0;  ///< of elements
};

/// A view of a storage, in elements of `type`. Nothing of it is checked but that the numbers are
/// whole.
struct PickledTensor {
  std::size_t storage = 0;  ///< in Pickle::storages
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

/// A dictionary, or the attributes of an object of a TorchScript module. In their order; a key may
/// stand there twice.
struct PickledMap {
  std::vector<std::pair<const PickledValue*, const PickledValue*>> entries;
  bool is_object = false;
};

/// A class or function by name: never looked up, never called.
struct PickledGlobal {
  std::string_view module, name;
};

/// An integer beyond 64 bits: its bytes, the lowest first.
struct PickledLong {
  std::string_view bytes;
};

/// A storage or tensor, by its place in the Pickle.
struct PickledStorageIndex {
  std::size_t index = 0;
  std::int64_t offset = 0;  ///< of elements: the oldest files have views of storages
};
struct PickledTensorIndex {
  std::size_t index = 0;
};

/// What is no tensor and no plain container: a set, a device, a number of numpy's, the attributes
/// of an object. It is neither made nor looked into.
struct PickledOpaque {};

struct PickledValue {
  std::variant<std::monostate, bool, std::int64_t, double, std::string_view, PickledLong,
               PickledList, PickledMap, PickledGlobal, PickledStorageIndex, PickledTensorIndex,
               PickledOpaque>
      data;
};

/// What one pickle holds. Texts are parts of the bytes that were read, which must outlive it. A
/// container may hold itself.
struct Pickle {
  const PickledValue* value = nullptr;
  std::size_t length = 0;  ///< bytes of the pickle
  std::deque<PickledValue> values;
  std::vector<PickledStorage> storages;
  std::vector<PickledTensor> tensors;
};

/// The pickle wants more than to be read: to run code that is no part of a tensor.
struct ForbiddenPickle : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// Longer pickles are refused: the numbers are not in them.
inline constexpr std::size_t kLongestPickle = 64 << 20;

/// Reads the pickle that `bytes` begin with, of protocol 2 to 5, as torch.save and TorchScript make
/// them. It makes tensors and plain containers, and opaque values of what training programs keep
/// beside them; classes and functions are taken for these by an allow-list of names, and nothing is
/// run. Throws std::invalid_argument saying what is wrong, in half a sentence; ForbiddenPickle for
/// any other name.
Pickle read_pickle(std::string_view bytes);

}  // namespace stages
