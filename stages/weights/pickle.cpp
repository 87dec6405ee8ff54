#include "stages/weights/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <limits>
#include <optional>
#include <unordered_map>

#include "runner/text/printable.h"

namespace stages {
namespace {

// Of values, and of all that is made of them: no state dict has as many, and a pickle of 64 MiB could ask for more than
// there is memory.
constexpr std::size_t kMostObjects = 2'000'000;
constexpr std::size_t kMostPickledDimensions = 64;

constexpr std::array kStorageTypes = {
    ElementType{"float32", "FloatStorage", 4},
    ElementType{"float64", "DoubleStorage", 8},
    ElementType{"float16", "HalfStorage", 2},
    ElementType{"bfloat16", "BFloat16Storage", 2},
    ElementType{"int64", "LongStorage", 8},
    ElementType{"int32", "IntStorage", 4},
    ElementType{"int16", "ShortStorage", 2},
    ElementType{"int8", "CharStorage", 1},
    ElementType{"uint8", "ByteStorage", 1},
    ElementType{"bool", "BoolStorage", 1},
    ElementType{"complex64", "ComplexFloatStorage", 8},
    ElementType{"complex128", "ComplexDoubleStorage", 16},
    ElementType{"uint16", "", 2},
    ElementType{"uint32", "", 4},
    ElementType{"uint64", "", 8},
    ElementType{"float8_e4m3fn", "", 1},
    ElementType{"float8_e4m3fnuz", "", 1},
    ElementType{"float8_e5m2", "", 1},
    ElementType{"float8_e5m2fnuz", "", 1},
    ElementType{"float8_e8m0fnu", "", 1},
};

[[noreturn]] void refuse_pickle(const std::string& why) { throw std::invalid_argument(why); }

/// "torch.nn.Module", as a message shows it.
std::string full_name(const PickledGlobal& global) {
  return runner::printable_ascii(std::string(global.module) + '.' + std::string(global.name));
}

const ElementType* storage_type(const PickledGlobal& global) {
  if (global.name == "UntypedStorage" && (global.module == "torch.storage" || global.module == "torch"))
    return element_type("uint8");
  if (global.module != "torch") return nullptr;
  const auto type = std::ranges::find(kStorageTypes, global.name, &ElementType::storage);
  return type == kStorageTypes.end() ? nullptr : &*type;
}

/// What stands for something that makes a tensor or a plain container.
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

/// The machine that a pickle is a program for: a stack of values, marks in it, and a memory of values by number.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  Pickle read() {
    while (step()) {
    }
    if (stack_.size() != 1 || !marks_.empty()) refuse_pickle("its pickle ends with more or less than one value");
    pickle_.value = stack_.back();
    pickle_.length = at_;
    return std::move(pickle_);
  }

 private:
  // --- bytes

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) refuse_pickle("its pickle ends early");
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }

  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    const std::string_view taken = take(bytes);
    for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    return value;
  }

  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos) refuse_pickle("its pickle ends early");
    const std::string_view text = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }

  // --- the stack

  /// Counts what is kept, since a few bytes of a pickle may ask for much.
  void spend(std::size_t count) {
    spent_ += count;
    if (spent_ > kMostObjects) refuse_pickle("its pickle makes more than 2000000 values");
  }

  PickledValue* push_again(PickledValue* value) {
    spend(1);
    stack_.push_back(value);
    return value;
  }

  template <typename T>
  PickledValue* push(T data) {
    PickledValue* value = &pickle_.values.emplace_back();
    value->data = std::move(data);
    return push_again(value);
  }

  void remember(std::uint64_t key, PickledValue* value) {
    spend(1);
    memory_[key] = value;
  }

  /// How many values above the last mark may be taken.
  std::size_t free() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  PickledValue* top() {
    if (free() == 0) refuse_pickle("its pickle takes a value that is not there");
    return stack_.back();
  }

  PickledValue* pop() {
    PickledValue* value = top();
    stack_.pop_back();
    return value;
  }

  std::vector<PickledValue*> pop_to_mark() {
    if (marks_.empty()) refuse_pickle("its pickle takes a mark that is not there");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickledValue*> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  PickledValue* remembered(std::uint64_t key) {
    const auto found = memory_.find(key);
    if (found == memory_.end()) refuse_pickle("its pickle recalls a value that it has not kept");
    return found->second;
  }

  template <typename T>
  static T& as(PickledValue* value, const char* what) {
    T* data = std::get_if<T>(&value->data);
    if (!data) refuse_pickle(std::string("its pickle has something else where ") + what + " belongs");
    return *data;
  }
  template <typename T>
  static const T& as(const PickledValue* value, const char* what) {
    return as<T>(const_cast<PickledValue*>(value), what);
  }

  // --- containers

  void push_tuple(std::size_t size) {
    if (free() < size) refuse_pickle("its pickle takes a value that is not there");
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(size);
    PickledList list{{begin, stack_.end()}};
    stack_.erase(begin, stack_.end());
    push(std::move(list));
  }

  void push_items(std::vector<PickledValue*> items) { push(PickledList{{items.begin(), items.end()}}); }

  static void append(PickledValue* list, const std::vector<PickledValue*>& items) {
    auto& all = as<PickledList>(list, "a list").items;
    all.insert(all.end(), items.begin(), items.end());
  }

  static void set(PickledValue* map, const std::vector<PickledValue*>& items) {
    auto& entries = as<PickledMap>(map, "a dictionary").entries;
    if (items.size() % 2 != 0) refuse_pickle("its pickle sets a key to no value");
    for (std::size_t i = 0; i < items.size(); i += 2) entries.emplace_back(items[i], items[i + 1]);
  }

  // --- what stands for a call

  void push_global(std::string_view module, std::string_view name) {
    const PickledGlobal global{module, name};
    if (!is_allowed(global)) throw ForbiddenPickle("it would run '" + full_name(global) + "'");
    push(global);
  }

  std::vector<std::int64_t> whole_numbers(const PickledValue* value, const char* what) {
    const auto& items = as<PickledList>(value, what).items;
    if (items.size() > kMostPickledDimensions)
      refuse_pickle("it has a tensor of " + std::to_string(items.size()) + " dimensions");
    spend(items.size());
    std::vector<std::int64_t> numbers;
    for (const PickledValue* item : items) numbers.push_back(as<std::int64_t>(item, what));
    return numbers;
  }

  static bool is_empty(const PickledValue* value) {
    const auto* map = std::get_if<PickledMap>(&value->data);
    return std::holds_alternative<std::monostate>(value->data) || (map && map->entries.empty());
  }

  /// _rebuild_tensor(storage, offset, sizes, strides), v2 followed by (requires_grad, hooks), and v3 with the type
  /// too
  void push_tensor(const PickledValues& arguments, std::size_t least, std::size_t most) {
    if (arguments.size() < least || arguments.size() > most)
      refuse_pickle("its pickle makes a tensor of too little or too much");
    const auto& [storage, offset] = as<PickledStorageIndex>(arguments[0], "a storage");
    PickledTensor tensor{.storage = storage,
                         .type = pickle_.storages[storage].type,
                         .offset = as<std::int64_t>(arguments[1], "a tensor's offset"),
                         .sizes = whole_numbers(arguments[2], "a tensor's sizes"),
                         .strides = whole_numbers(arguments[3], "a tensor's strides")};
    if (__builtin_add_overflow(tensor.offset, offset, &tensor.offset))
      refuse_pickle("it has a tensor that lies nowhere");
    if (least == 7) {
      const auto& type = as<PickledGlobal>(arguments[6], "a type of numbers");
      tensor.type = type.module == "torch" ? element_type(type.name) : nullptr;
      if (!tensor.type) refuse_pickle("its pickle has something else where a type of numbers belongs");
    }
    // What comes last says that the numbers are to be conjugated or negated.
    if (arguments.size() == most && most > 4 && !is_empty(arguments.back())) {
      refuse_pickle("it has a tensor that is to be conjugated or negated when it is read");
    }
    pickle_.tensors.push_back(std::move(tensor));
    push(PickledTensorIndex{pickle_.tensors.size() - 1});
  }

  void push_ordered(const PickledValues& arguments) {
    PickledMap map;
    if (arguments.size() > 1) refuse_pickle("its pickle makes a dictionary of too much");
    if (!arguments.empty()) {
      for (const PickledValue* pair : as<PickledList>(arguments[0], "a list of pairs").items) {
        const auto& items = as<PickledList>(pair, "a pair").items;
        if (items.size() != 2) refuse_pickle("its pickle has something else where a pair belongs");
        spend(1);
        map.entries.emplace_back(items[0], items[1]);
      }
    }
    push(std::move(map));
  }

  /// The value that calling `called` with `arguments` would give.
  void reduce(const PickledValue* called, const PickledValue* values) {
    const auto& global = as<PickledGlobal>(called, "a function");
    const PickledValues& arguments = as<PickledList>(values, "a tuple").items;
    const std::string_view name = global.name;
    if (global.module == "collections") return push_ordered(arguments);
    if (global.module.starts_with("__torch__")) {
      if (!arguments.empty()) throw ForbiddenPickle("it would run '" + full_name(global) + "'");
      push(PickledMap{{}, true});
      return;
    }
    if (name == "_rebuild_tensor") return push_tensor(arguments, 4, 4);
    if (name == "_rebuild_tensor_v2") return push_tensor(arguments, 6, 7);
    if (name == "_rebuild_tensor_v3") return push_tensor(arguments, 7, 8);
    if (name == "_rebuild_parameter" && arguments.size() == 3) return repeat(arguments[0]);
    const bool is_first_of_two = name == "restore_type_tag" && arguments.size() == 2;
    const bool is_list = (name == "Size" || name.starts_with("build_")) && arguments.size() == 1;
    if (is_first_of_two || is_list) return repeat(arguments[0]);
    throw ForbiddenPickle("it would run '" + full_name(global) + "'");
  }

  void repeat(const PickledValue* value) { push_again(const_cast<PickledValue*>(value)); }

  /// ('storage', type, key, where it was, count[, view]), where the oldest files have the view (key, offset, count)
  void push_storage(const PickledValue* id) {
    const char* kWhat = "a storage's name";
    const PickledValues& parts = as<PickledList>(id, kWhat).items;
    if (parts.size() < 5 || parts.size() > 6 || as<std::string_view>(parts[0], kWhat) != "storage") {
      refuse_pickle(std::string("its pickle has something else where ") + kWhat + " belongs");
    }
    const auto& global = as<PickledGlobal>(parts[1], kWhat);
    const PickledStorage storage{as<std::string_view>(parts[2], kWhat), storage_type(global),
                                 as<std::int64_t>(parts[4], kWhat)};
    if (!storage.type) refuse_pickle("it has a storage of the type '" + full_name(global) + "'");
    PickledStorageIndex index{storage_index(storage)};
    if (parts.size() == 6 && !std::holds_alternative<std::monostate>(parts[5]->data)) {
      const PickledValues& view = as<PickledList>(parts[5], kWhat).items;
      if (view.size() != 3) refuse_pickle(std::string("its pickle has something else where ") + kWhat + " belongs");
      index.offset = as<std::int64_t>(view[1], kWhat);
    }
    push(index);
  }

  std::size_t storage_index(const PickledStorage& storage) {
    const std::string called = "the storage '" + runner::printable_ascii(storage.key) + "'";
    if (storage.count < 0 || storage.count > std::numeric_limits<std::int64_t>::max() / storage.type->bytes) {
      refuse_pickle(called + " has an impossible size");
    }
    const auto [place, is_new] = by_key_.try_emplace(storage.key, pickle_.storages.size());
    if (is_new) {
      pickle_.storages.push_back(storage);
    } else {
      const PickledStorage& other = pickle_.storages[place->second];
      if (other.type != storage.type || other.count != storage.count)
        refuse_pickle(called + " stands there in two forms");
    }
    return place->second;
  }

  /// Only what is a dictionary has a state: attributes of a TorchScript object, and what state dicts say of themselves.
  void build(PickledValue* value, const PickledValue* state) {
    auto& map = as<PickledMap>(value, "a dictionary");
    const auto& entries = as<PickledMap>(state, "a dictionary of attributes").entries;
    if (!map.is_object || value == state) return;
    spend(entries.size());
    map.entries.insert(map.entries.end(), entries.begin(), entries.end());
  }

  // --- the program

  void push_whole(std::string_view bytes) {
    if (bytes.size() > 8) {
      push(PickledLong{bytes});
      return;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    const std::size_t unused = 64 - 8 * bytes.size();
    push(bytes.empty() ? std::int64_t{0} : static_cast<std::int64_t>(value << unused) >> unused);
  }

  void push_float() {
    std::uint64_t bits = 0;
    for (const char byte : take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
    push(std::bit_cast<double>(bits));
  }

  /// One instruction; false after the last.
  bool step() {
    const std::size_t began = at_;
    const auto code = static_cast<unsigned char>(take(1)[0]);
    switch (code) {
      case 0x80:
        if (const std::uint64_t protocol = number(1); protocol < 2 || protocol > 5) {
          refuse_pickle("its pickle is of the protocol " + std::to_string(protocol));
        }
        return true;
      case 0x95:
        number(8);
        return true;  // a frame: its length says nothing that the program does not
      case '.':
        return false;

      case 'N':
        push(std::monostate());
        return true;
      case 0x88:
        push(true);
        return true;
      case 0x89:
        push(false);
        return true;
      case 'J':
        push(std::int64_t{static_cast<std::int32_t>(number(4))});
        return true;
      case 'K':
        push(static_cast<std::int64_t>(number(1)));
        return true;
      case 'M':
        push(static_cast<std::int64_t>(number(2)));
        return true;
      case 0x8a:
        push_whole(take(number(1)));
        return true;
      case 0x8b:
        push_whole(take(number(4)));
        return true;
      case 'G':
        push_float();
        return true;
      case 'U':
      case 'C':
      case 0x8c:
        push(take(number(1)));
        return true;
      case 'T':
      case 'B':
      case 'X':
        push(take(number(4)));
        return true;
      case 0x8d:
      case 0x8e:
        push(take(number(8)));
        return true;

      case '}':
        push(PickledMap());
        return true;
      case ']':
      case ')':
        push(PickledList());
        return true;
      case 0x85:
        push_tuple(1);
        return true;
      case 0x86:
        push_tuple(2);
        return true;
      case 0x87:
        push_tuple(3);
        return true;
      case '(':
        spend(1);
        marks_.push_back(stack_.size());
        return true;
      case 't':
      case 'l':
        push_items(pop_to_mark());
        return true;
      case 'd': {
        const auto items = pop_to_mark();
        set(push(PickledMap()), items);
        return true;
      }
      case 'a': {
        PickledValue* item = pop();
        append(top(), {item});
        return true;
      }
      case 'e': {
        const auto items = pop_to_mark();
        append(top(), items);
        return true;
      }
      case 's': {
        PickledValue* value = pop();
        PickledValue* key = pop();
        set(top(), {key, value});
        return true;
      }
      case 'u': {
        const auto items = pop_to_mark();
        set(top(), items);
        return true;
      }

      case '0':
        pop();
        return true;
      case '1':
        pop_to_mark();
        return true;
      case '2':
        push_again(top());
        return true;
      case 'q':
        remember(number(1), top());
        return true;
      case 'r':
        remember(number(4), top());
        return true;
      case 0x94:
        remember(memory_.size(), top());
        return true;
      case 'h':
        push_again(remembered(number(1)));
        return true;
      case 'j':
        push_again(remembered(number(4)));
        return true;

      case 'c': {
        const std::string_view module = line();
        push_global(module, line());
        return true;
      }
      case 0x93: {
        const auto name = as<std::string_view>(pop(), "a name");
        push_global(as<std::string_view>(pop(), "a name"), name);
        return true;
      }
      case 'R':
      case 0x81: {
        const PickledValue* arguments = pop();
        reduce(pop(), arguments);
        return true;
      }
      case 'b': {
        const PickledValue* state = pop();
        build(top(), state);
        return true;
      }
      case 'Q':
        push_storage(pop());
        return true;
      default:
        break;
    }
    char text[80];
    std::snprintf(text, sizeof text, "its pickle has the code 0x%02x at byte %zu, which torch.save does not write",
                  code, began);
    refuse_pickle(text);
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t spent_ = 0;
  std::vector<PickledValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickledValue*> memory_;
  std::unordered_map<std::string_view, std::size_t> by_key_;
  Pickle pickle_;
};

}  // namespace

Pickle read_pickle(std::string_view bytes) { return Reader(bytes.substr(0, kLongestPickle)).read(); }

const ElementType* element_type(std::string_view name) {
  const auto type = std::ranges::find(kStorageTypes, name, &ElementType::name);
  return type == kStorageTypes.end() ? nullptr : &*type;
}

}  // namespace stages
