#include "stages/weights/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <unordered_map>

#include "stages/weights/pickle_builder.h"

namespace stages {
namespace {

constexpr std::array kElementTypes = {
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

}  // namespace

const ElementType* element_type(std::string_view name) {
  const auto type = std::ranges::find(kElementTypes, name, &ElementType::name);
  return type == kElementTypes.end() ? nullptr : &*type;
}

const ElementType* element_type_of_storage(std::string_view storage) {
  const auto type = std::ranges::find(kElementTypes, storage, &ElementType::storage);
  return type == kElementTypes.end() || storage.empty() ? nullptr : &*type;
}

namespace {

/// The virtual machine that runs a pickle. It has a stack of values, marks in the stack, and a memo
/// of numbered values.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  Pickle read() {
    while (step()) {
    }
    if (stack_.size() != 1 || !marks_.empty())
      refuse_pickle("its pickle does not end with exactly one value");
    return builder_.finish(stack_.back(), at_);
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
    for (std::size_t i = 0; i < bytes; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
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

  PickledValue* push(PickledValue* value) {
    builder_.spend(1);
    stack_.push_back(value);
    return value;
  }

  template <typename T>
  PickledValue* push_new(T data) {
    return push(builder_.make(std::move(data)));
  }

  void remember(std::uint64_t key, PickledValue* value) {
    builder_.spend(1);
    memory_[key] = value;
  }

  /// Returns the number of values above the last mark.
  std::size_t free() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  PickledValue* top() {
    if (free() == 0) refuse_pickle("its pickle pops a value that does not exist");
    return stack_.back();
  }

  PickledValue* pop() {
    PickledValue* value = top();
    stack_.pop_back();
    return value;
  }

  PickledValues pop_to_mark() {
    if (marks_.empty()) refuse_pickle("its pickle pops to a mark that does not exist");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    PickledValues items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  PickledValue* remembered(std::uint64_t key) {
    const auto found = memory_.find(key);
    if (found == memory_.end()) refuse_pickle("its pickle recalls a value that it never stored");
    return found->second;
  }

  // --- containers

  void push_tuple(std::size_t size) {
    if (free() < size) refuse_pickle("its pickle pops a value that does not exist");
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(size);
    PickledList list{{begin, stack_.end()}};
    stack_.erase(begin, stack_.end());
    push_new(std::move(list));
  }

  void push_items(PickledValues items) { push_new(PickledList{std::move(items)}); }

  // --- the program

  void push_whole(std::string_view bytes) {
    if (bytes.size() > 8) {
      push_new(PickledLong{bytes});
      return;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    const std::size_t unused = 64 - 8 * bytes.size();
    push_new(bytes.empty() ? std::int64_t{0}
                           : static_cast<std::int64_t>(value << unused) >> unused);
  }

  void push_float() {
    std::uint64_t bits = 0;
    for (const char byte : take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
    push_new(std::bit_cast<double>(bits));
  }

  // Each of the following functions handles a group of opcodes: if `code` belongs to the group, the
  // function executes it and returns true; otherwise it returns false.

  /// The protocol and frame opcodes.
  bool skip_frame(unsigned char code) {
    switch (code) {
      case 0x80:
        if (const std::uint64_t protocol = number(1); protocol < 2 || protocol > 5) {
          refuse_pickle("its pickle has the unsupported protocol " + std::to_string(protocol));
        }
        return true;
      case 0x95:
        number(8);
        return true;  // ignores the length of a frame, which is redundant
      default:
        return false;
    }
  }

  /// Opcodes that push a number, a string, or None.
  bool push_literal(unsigned char code) {
    switch (code) {
      case 'N':
        push_new(std::monostate());
        return true;
      case 0x88:
        push_new(true);
        return true;
      case 0x89:
        push_new(false);
        return true;
      case 'J':
        push_new(std::int64_t{static_cast<std::int32_t>(number(4))});
        return true;
      case 'K':
        push_new(static_cast<std::int64_t>(number(1)));
        return true;
      case 'M':
        push_new(static_cast<std::int64_t>(number(2)));
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
        push_new(take(number(1)));
        return true;
      case 'T':
      case 'B':
      case 'X':
        push_new(take(number(4)));
        return true;
      case 0x8d:
      case 0x8e:
        push_new(take(number(8)));
        return true;
      default:
        return false;
    }
  }

  /// Opcodes that build and fill lists, tuples and dictionaries.
  bool use_containers(unsigned char code) {
    switch (code) {
      case '}':
        push_new(PickledMap());
        return true;
      case ']':
      case ')':
        push_new(PickledList());
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
        builder_.spend(1);
        marks_.push_back(stack_.size());
        return true;
      case 't':
      case 'l':
        push_items(pop_to_mark());
        return true;
      case 'd': {
        const auto items = pop_to_mark();
        PickleBuilder::set(push_new(PickledMap()), items);
        return true;
      }
      case 'a': {
        PickledValue* item = pop();
        PickleBuilder::append(top(), {item});
        return true;
      }
      case 'e': {
        const auto items = pop_to_mark();
        PickleBuilder::append(top(), items);
        return true;
      }
      case 's': {
        PickledValue* value = pop();
        PickledValue* key = pop();
        PickleBuilder::set(top(), {key, value});
        return true;
      }
      case 'u': {
        const auto items = pop_to_mark();
        PickleBuilder::set(top(), items);
        return true;
      }
      default:
        return false;
    }
  }

  /// Opcodes for sets and bytearrays, which are opaque because they never contain tensors.
  bool use_sets(unsigned char code) {
    switch (code) {
      case 0x8f:
        push_new(PickledOpaque());
        return true;
      case 0x90: {
        pop_to_mark();
        top();
        return true;
      }
      case 0x91:
        pop_to_mark();
        push_new(PickledOpaque());
        return true;
      case 0x96:  // a bytearray
        take(number(8));
        push_new(PickledOpaque());
        return true;
      default:
        return false;
    }
  }

  /// Opcodes that drop, duplicate, store and recall values.
  bool use_memory(unsigned char code) {
    switch (code) {
      case '0':
        pop();
        return true;
      case '1':
        pop_to_mark();
        return true;
      case '2':
        push(top());
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
        push(remembered(number(1)));
        return true;
      case 'j':
        push(remembered(number(4)));
        return true;
      default:
        return false;
    }
  }

  /// Opcodes that name a function or class, call it, or set the state of its result.
  bool call(unsigned char code) {
    switch (code) {
      case 'c': {
        const std::string_view module = line();
        push(builder_.global(module, line()));
        return true;
      }
      case 0x93: {
        const auto name = PickleBuilder::as<std::string_view>(pop(), "a name");
        push(builder_.global(PickleBuilder::as<std::string_view>(pop(), "a name"), name));
        return true;
      }
      case 'R':
      case 0x81: {
        const PickledValue* arguments = pop();
        push(builder_.call(pop(), arguments));
        return true;
      }
      case 0x92: {  // with keyword arguments, which are ignored
        pop();
        const PickledValue* arguments = pop();
        push(builder_.call(pop(), arguments));
        return true;
      }
      case 'b': {
        const PickledValue* state = pop();
        builder_.set_state(top(), state);
        return true;
      }
      case 'Q':
        push(builder_.storage(pop()));
        return true;
      default:
        return false;
    }
  }

  /// Executes one opcode. Returns false after the last one.
  bool step() {
    const std::size_t began = at_;
    const auto code = static_cast<unsigned char>(take(1)[0]);
    if (code == '.') return false;
    if (skip_frame(code) || push_literal(code) || use_containers(code) || use_sets(code) ||
        use_memory(code) || call(code))
      return true;
    char text[80];
    std::snprintf(text, sizeof text,
                  "its pickle has the code 0x%02x at byte %zu, which torch.save does not write",
                  code, began);
    refuse_pickle(text);
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::vector<PickledValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickledValue*> memory_;
  PickleBuilder builder_;
};

}  // namespace

Pickle read_pickle(std::string_view bytes) {
  return Reader(bytes.substr(0, kLongestPickle)).read();
}

}  // namespace stages
