#include "stages/weights/pickle_builder.h"

#include <algorithm>
#include <array>
#include <limits>

#include "runner/shared/text/printable.h"

namespace stages {
namespace {

// The maximum number of values that a pickle may construct. No state dict has that many, and
// without a limit a pickle of 64 MiB could request more memory than is available.
constexpr std::size_t kMostObjects = 2'000'000;
constexpr std::size_t kMostPickledDimensions = 64;

/// Returns the full name for messages, such as "torch.nn.Module".
std::string full_name(const PickledGlobal& global) {
  return runner::printable_ascii(std::string(global.module) + '.' + std::string(global.name));
}

const ElementType* storage_type(const PickledGlobal& global) {
  if (global.name == "UntypedStorage" &&
      (global.module == "torch.storage" || global.module == "torch"))
    return element_type("uint8");
  if (global.module != "torch") return nullptr;
  return element_type_of_storage(global.name);
}

/// True for names that construct a tensor or a plain container.
bool is_allowed(const PickledGlobal& global) {
  constexpr std::array kAllowed = {
      std::pair("collections", "OrderedDict"),
      std::pair("torch", "Size"),
      std::pair("torch._utils", "_rebuild_parameter"),
      std::pair("torch._utils", "_rebuild_tensor"),
      std::pair("torch._utils", "_rebuild_tensor_v2"),
      std::pair("torch._utils", "_rebuild_tensor_v3"),
      std::pair("torch.jit._pickle", "build_boollist"),
      std::pair("torch.jit._pickle", "build_doublelist"),
      std::pair("torch.jit._pickle", "build_intlist"),
      std::pair("torch.jit._pickle", "build_tensorlist"),
      std::pair("torch.jit._pickle", "restore_type_tag"),
  };
  return storage_type(global) || (global.module == "torch" && element_type(global.name)) ||
         global.module == "__torch__" || global.module.starts_with("__torch__.") ||
         std::ranges::any_of(kAllowed, [&](const auto& allowed) {
           return global.module == allowed.first && global.name == allowed.second;
         });
}

/// True for names of data that training programs store next to the weights.
bool is_opaque(const PickledGlobal& global) {
  struct Known {
    std::string_view module;
    std::vector<std::string_view> names;
  };
  static const std::vector<std::string_view> builtins = {
      "set", "frozenset", "list",  "dict",      "tuple", "int",   "float", "complex",
      "str", "bool",      "bytes", "bytearray", "slice", "range", "object"};
  static const std::vector<std::string_view> of_arrays = {"scalar", "_reconstruct"};
  static const std::vector<Known> all = {
      {"builtins", builtins},
      {"__builtin__", builtins},
      {"collections", {"Counter", "defaultdict", "deque"}},
      {"argparse", {"Namespace"}},
      {"types", {"SimpleNamespace"}},
      {"datetime", {"datetime", "date", "time", "timedelta", "timezone"}},
      {"decimal", {"Decimal"}},
      {"fractions", {"Fraction"}},
      {"uuid", {"UUID"}},
      {"pathlib",
       {"Path", "PosixPath", "WindowsPath", "PurePath", "PurePosixPath", "PureWindowsPath"}},
      {"pathlib._local",
       {"Path", "PosixPath", "WindowsPath", "PurePath", "PurePosixPath", "PureWindowsPath"}},
      {"copy_reg", {"_reconstructor"}},
      {"copyreg", {"_reconstructor"}},
      {"_codecs", {"encode"}},
      {"numpy", {"dtype", "ndarray"}},
      {"numpy.core.multiarray", of_arrays},
      {"numpy._core.multiarray", of_arrays},
      {"numpy.core.numeric", {"_frombuffer"}},
      {"numpy._core.numeric", {"_frombuffer"}},
      {"torch", {"device", "Generator"}},
      {"torch.serialization", {"_get_layout"}},
      {"torch.torch_version", {"TorchVersion"}},
      {"omegaconf.dictconfig", {"DictConfig"}},
      {"omegaconf.listconfig", {"ListConfig"}},
      {"omegaconf.base", {"ContainerMetadata", "Metadata"}},
      {"omegaconf.nodes",
       {"AnyNode", "IntegerNode", "FloatNode", "StringNode", "BooleanNode", "PathNode", "BytesNode",
        "EnumNode"}},
      {"typing", {"Any"}},
      {"easydict", {"EasyDict"}},
      {"yacs.config", {"CfgNode"}},
      {"fvcore.common.config", {"CfgNode"}},
      {"pytorch_lightning.utilities.parsing", {"AttributeDict"}},
      {"lightning.pytorch.utilities.parsing", {"AttributeDict"}},
      {"lightning_fabric.utilities.data", {"AttributeDict"}},
      {"lightning.fabric.utilities.data", {"AttributeDict"}},
      {"pytorch_lightning.callbacks.model_checkpoint", {"ModelCheckpoint"}},
      {"pytorch_lightning.callbacks.early_stopping", {"EarlyStopping"}},
  };
  // Numeric types by numpy's class names: numpy.dtypes.Float64DType, numpy.float32.
  if (global.module == "numpy.dtypes") return global.name.ends_with("DType");
  if (global.module == "numpy") {
    for (const std::string_view kind : {"float", "int", "uint", "bool", "complex"}) {
      if (global.name.starts_with(kind) &&
          global.name.find_first_not_of("0123456789_", kind.size()) == global.name.npos)
        return true;
    }
  }
  return std::ranges::any_of(all, [&](const Known& known) {
    return global.module == known.module &&
           std::ranges::find(known.names, global.name) != known.names.end();
  });
}

bool is_empty(const PickledValue* value) {
  const auto* map = std::get_if<PickledMap>(&value->data);
  return std::holds_alternative<std::monostate>(value->data) || (map && map->entries.empty());
}

}  // namespace

void refuse_pickle(const std::string& why) { throw std::invalid_argument(why); }

void PickleBuilder::spend(std::size_t count) {
  spent_ += count;
  if (spent_ > kMostObjects) refuse_pickle("its pickle creates more than 2000000 values");
}

Pickle PickleBuilder::finish(const PickledValue* value, std::size_t length) {
  pickle_.value = value;
  pickle_.length = length;
  return std::move(pickle_);
}

PickledValue* PickleBuilder::global(std::string_view module, std::string_view name) {
  const PickledGlobal global{module, name};
  if (!is_allowed(global) && !is_opaque(global))
    throw ForbiddenPickle("loading it would run '" + full_name(global) + "'");
  return make(global);
}

PickledValue* PickleBuilder::call(const PickledValue* called, const PickledValue* values) {
  const auto& global = as<PickledGlobal>(called, "a function");
  const PickledValues& arguments = as<PickledList>(values, "a tuple").items;
  const std::string_view name = global.name;
  // The pickle sets its items afterward.
  if (global.module == "collections" && name == "defaultdict") return make(PickledMap());
  if (is_opaque(global)) return make(PickledOpaque());
  if (global.module == "collections") return ordered(arguments);
  if (global.module.starts_with("__torch__")) {
    if (!arguments.empty())
      throw ForbiddenPickle("loading it would run '" + full_name(global) + "'");
    return make(PickledMap{{}, true});
  }
  if (name == "_rebuild_tensor") return tensor(arguments, 4, 4);
  if (name == "_rebuild_tensor_v2") return tensor(arguments, 6, 7);
  if (name == "_rebuild_tensor_v3") return tensor(arguments, 7, 8);
  if (name == "_rebuild_parameter" && arguments.size() == 3)
    return const_cast<PickledValue*>(arguments[0]);
  const bool is_first_of_two = name == "restore_type_tag" && arguments.size() == 2;
  const bool is_list = (name == "Size" || name.starts_with("build_")) && arguments.size() == 1;
  if (is_first_of_two || is_list) return const_cast<PickledValue*>(arguments[0]);
  throw ForbiddenPickle("loading it would run '" + full_name(global) + "'");
}

std::vector<std::int64_t> PickleBuilder::whole_numbers(const PickledValue* value,
                                                       const char* what) {
  const auto& items = as<PickledList>(value, what).items;
  if (items.size() > kMostPickledDimensions)
    refuse_pickle("it has a tensor of " + std::to_string(items.size()) + " dimensions");
  spend(items.size());
  std::vector<std::int64_t> numbers;
  for (const PickledValue* item : items) numbers.push_back(as<std::int64_t>(item, what));
  return numbers;
}

/// Builds a tensor from the arguments of _rebuild_tensor(storage, offset, sizes, strides), of _v2,
/// which adds (requires_grad, hooks), or of _v3, which also adds the type.
PickledValue* PickleBuilder::tensor(const PickledValues& arguments, std::size_t least,
                                    std::size_t most) {
  if (arguments.size() < least || arguments.size() > most)
    refuse_pickle("its pickle builds a tensor from too few or too many values");
  const auto& [storage, offset] = as<PickledStorageIndex>(arguments[0], "a storage");
  PickledTensor made{.storage = storage,
                     .type = pickle_.storages[storage].type,
                     .offset = as<std::int64_t>(arguments[1], "a tensor's offset"),
                     .sizes = whole_numbers(arguments[2], "a tensor's sizes"),
                     .strides = whole_numbers(arguments[3], "a tensor's strides")};
  if (__builtin_add_overflow(made.offset, offset, &made.offset))
    refuse_pickle("it has a tensor without a storage");
  if (least == 7) {
    const auto& type = as<PickledGlobal>(arguments[6], "an element type");
    made.type = type.module == "torch" ? element_type(type.name) : nullptr;
    if (!made.type) refuse_pickle("its pickle has an unexpected value instead of an element type");
  }
  // An additional last argument means that the values must be conjugated or negated.
  if (arguments.size() == most && most > 4 && !is_empty(arguments.back())) {
    refuse_pickle("it has a tensor that must be conjugated or negated when it is read");
  }
  pickle_.tensors.push_back(std::move(made));
  return make(PickledTensorIndex{pickle_.tensors.size() - 1});
}

PickledValue* PickleBuilder::ordered(const PickledValues& arguments) {
  PickledMap map;
  if (arguments.size() > 1) refuse_pickle("its pickle builds a dictionary from too many values");
  if (!arguments.empty()) {
    for (const PickledValue* pair : as<PickledList>(arguments[0], "a list of pairs").items) {
      const auto& items = as<PickledList>(pair, "a pair").items;
      if (items.size() != 2) refuse_pickle("its pickle has an unexpected value instead of a pair");
      spend(1);
      map.entries.emplace_back(items[0], items[1]);
    }
  }
  return make(std::move(map));
}

PickledValue* PickleBuilder::storage(const PickledValue* id) {
  constexpr const char* kWhat = "a storage's name";
  const PickledValues& parts = as<PickledList>(id, kWhat).items;
  if (parts.size() < 5 || parts.size() > 6 || as<std::string_view>(parts[0], kWhat) != "storage") {
    refuse_pickle(std::string("its pickle has an unexpected value instead of ") + kWhat);
  }
  const auto& global = as<PickledGlobal>(parts[1], kWhat);
  const PickledStorage named{as<std::string_view>(parts[2], kWhat), storage_type(global),
                             as<std::int64_t>(parts[4], kWhat)};
  if (!named.type)
    refuse_pickle("it has a storage of the unsupported type '" + full_name(global) + "'");
  PickledStorageIndex index{storage_index(named)};
  if (parts.size() == 6 && !std::holds_alternative<std::monostate>(parts[5]->data)) {
    const PickledValues& view = as<PickledList>(parts[5], kWhat).items;
    if (view.size() != 3)
      refuse_pickle(std::string("its pickle has an unexpected value instead of ") + kWhat);
    index.offset = as<std::int64_t>(view[1], kWhat);
  }
  return make(index);
}

std::size_t PickleBuilder::storage_index(const PickledStorage& storage) {
  const std::string called = "the storage '" + runner::printable_ascii(storage.key) + "'";
  if (storage.count < 0 ||
      storage.count > std::numeric_limits<std::int64_t>::max() / storage.type->bytes) {
    refuse_pickle(called + " has an impossible size");
  }
  const auto [place, is_new] = by_key_.try_emplace(storage.key, pickle_.storages.size());
  if (is_new) {
    pickle_.storages.push_back(storage);
  } else {
    const PickledStorage& other = pickle_.storages[place->second];
    if (other.type != storage.type || other.count != storage.count)
      refuse_pickle(called + " appears in two forms");
  }
  return place->second;
}

void PickleBuilder::append(PickledValue* list, const PickledValues& items) {
  if (std::holds_alternative<PickledOpaque>(list->data)) return;
  auto& all = as<PickledList>(list, "a list").items;
  all.insert(all.end(), items.begin(), items.end());
}

void PickleBuilder::set(PickledValue* map, const PickledValues& items) {
  if (items.size() % 2 != 0) refuse_pickle("its pickle sets a key without a value");
  if (std::holds_alternative<PickledOpaque>(map->data)) return;
  auto& entries = as<PickledMap>(map, "a dictionary").entries;
  for (std::size_t i = 0; i < items.size(); i += 2) entries.emplace_back(items[i], items[i + 1]);
}

void PickleBuilder::set_state(PickledValue* value, const PickledValue* state) {
  if (std::holds_alternative<PickledOpaque>(value->data)) return;
  auto& map = as<PickledMap>(value, "a dictionary");
  const auto& entries = as<PickledMap>(state, "a dictionary of attributes").entries;
  if (!map.is_object || value == state) return;
  spend(entries.size());
  map.entries.insert(map.entries.end(), entries.begin(), entries.end());
}

}  // namespace stages
