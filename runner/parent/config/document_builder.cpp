#include "runner/parent/config/document_builder.h"

#include <algorithm>
#include <utility>

#include "runner/parent/config/scalar.h"

namespace runner {
namespace {

constexpr std::string_view kCore = "tag:yaml.org,2002:";

/// Returns the start of `text`, in quotes.
std::string start_in_quotes(const std::string& text) {
  constexpr std::size_t kMaxShown =
      60;  // longer strings are numbers, or are truncated in messages anyway
  return "'" + (text.size() > kMaxShown ? text.substr(0, kMaxShown) + "..." : text) + "'";
}

/// True for an integer with a leading 0 that YAML 1.1 reads as octal, so its value is not what its
/// digits suggest.
bool is_octal_trap(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  const bool is_octal = text.size() > 1 && text[0] == '0' && text[1] != 'x' && text[1] != 'b';
  return is_octal && text.find_first_not_of("0_") < text.size() - 1;
}

constexpr std::size_t kDeepestDocument = 64;
constexpr std::size_t kMaxNodes = 100'000;
constexpr std::size_t kMaxAliasedNodes = 10'000;
constexpr std::size_t kMaxAliasedBytes = 16u << 20;
constexpr std::size_t kMaxFound = 100;  // maximum number of errors, and of warnings

struct Size {
  std::size_t nodes = 1;
  std::size_t bytes = 0;  ///< total bytes of all keys and strings
  std::size_t depth = 0;  ///< of nested containers
};

Size measure(const Value& value) {
  Size size;
  const auto add = [&](const Value& child) {
    const Size below = measure(child);
    size.nodes += below.nodes;
    size.bytes += below.bytes;
    size.depth = std::max(size.depth, below.depth);
  };
  if (const auto* text = value.text()) size.bytes = text->size();
  if (const auto* list = value.list()) std::ranges::for_each(*list, add);
  if (const auto* map = value.map()) {
    for (const Entry& entry : *map) {
      size.bytes += entry.key.size();
      add(entry.value);
    }
  }
  if (value.list() || value.map()) ++size.depth;
  return size;
}

KeyType key_type(const Value& key) {
  if (std::holds_alternative<bool>(key.data)) return KeyType::kBool;
  if (std::holds_alternative<double>(key.data)) return KeyType::kFloat;
  const bool is_integer =
      std::holds_alternative<std::int64_t>(key.data) || key.form == ScalarForm::kBigInteger;
  return is_integer ? KeyType::kInteger : KeyType::kString;
}

/// Merges `sources`, the mappings of `<<`, with a mapping's own entries. The mapping's own values
/// take precedence over all sources, and earlier sources over later ones. The order is PyYAML's:
/// merged keys first, beginning with the last source.
Value::Map merged(std::vector<Value> sources, Value::Map own) {
  Value::Map result;
  std::unordered_map<std::string, std::size_t> index;
  const auto put = [&](Value::Map entries) {
    for (Entry& entry : entries) {
      const auto [found, is_new] = index.try_emplace(entry.key, result.size());
      if (is_new) result.push_back(std::move(entry));
      else result[found->second] = std::move(entry);
    }
  };
  std::ranges::reverse(sources);
  for (Value& source : sources) put(std::move(*source.map()));
  put(std::move(own));
  return result;
}

/// Reads a scalar of a YAML file. `text` comes from yaml-cpp, with the tag "?" if it was unquoted
/// and "!" if it was quoted. A tag that is unknown or does not match the value is an error, added
/// to `errors`.
Value yaml_scalar(const Location& where, const std::string& tag, const std::string& text,
                  Diagnostics& errors) {
  if (tag == "!" || tag.empty() || tag == "tag:yaml.org,2002:str") return {text, where};
  const auto error = [&](ErrorCode code, std::string message, std::string help) {
    errors.push_back({code, where, "", std::move(message), std::move(help)});
    return Value{text, where};
  };
  const bool plain = tag == "?";
  const bool core = tag.starts_with(kCore);
  const std::string wanted = core ? tag.substr(kCore.size()) : "";
  if (!plain && wanted != "int" && wanted != "float" && wanted != "bool" && wanted != "null") {
    return error(ErrorCode::kUnknownTag, "unknown tag '" + (core ? "!!" + wanted : tag) + "'",
                 "remove the tag; !!str, !!int, !!float, !!bool and !!null are supported");
  }
  if (plain && text == "=")
    return error(ErrorCode::kYamlSyntax, "'=' alone has a special meaning in YAML", "quote it");
  std::optional<PlainScalar> read = plain_scalar(text);
  if (!read) {
    return error(ErrorCode::kNumberOutOfRange, "the integer has more than 4300 digits",
                 "write it in quotes if it is a name");
  }
  Value value{std::move(read->data), where};
  value.form = read->form;
  if (wanted == "float") {
    if (const auto* integer = std::get_if<std::int64_t>(&value.data))
      value.data = static_cast<double>(*integer);
    if (value.form == ScalarForm::kBigInteger) value = {parse_double(*value.text()), where};
  }
  const bool fits = plain ||
                    (wanted == "int" && (std::holds_alternative<std::int64_t>(value.data) ||
                                         value.form == ScalarForm::kBigInteger)) ||
                    (wanted == "float" && std::holds_alternative<double>(value.data)) ||
                    (wanted == "bool" && std::holds_alternative<bool>(value.data)) ||
                    (wanted == "null" && value.is_null());
  if (!fits)
    error(ErrorCode::kYamlSyntax, describe({text, where}) + " cannot be read as !!" + wanted,
          "remove the tag");
  return value;
}

/// Returns a warning if `read`, the value of the unquoted `text` in YAML 1.1, is unexpected, such
/// as that of yes, on, 010 or 1:30; else nullopt.
std::optional<Diagnostic> yaml_trap(const std::string& text, const Value& read) {
  const auto warning = [&](const std::string& as) {
    return Diagnostic{.code = ErrorCode::kYamlTrap,
                      .where = read.where,
                      .message = start_in_quotes(text) + " without quotes is " + as,
                      .help = "write " + scalar_text(read) + " if that is what you mean, else " +
                              start_in_quotes(text) + " in quotes",
                      .severity = Severity::kWarning};
  };
  if (std::holds_alternative<bool>(read.data) &&
      std::string_view("tTfF").find(text[0]) == std::string_view::npos) {
    return warning("the boolean " + scalar_text(read));
  }
  const bool is_integer =
      std::holds_alternative<std::int64_t>(read.data) || read.form == ScalarForm::kBigInteger;
  if (!is_integer && !std::holds_alternative<double>(read.data)) return std::nullopt;
  if (text.find(':') != std::string::npos)
    return warning("a number in base 60: " + scalar_text(read));
  if (is_integer && is_octal_trap(text)) return warning("an octal number: " + scalar_text(read));
  return std::nullopt;
}

}  // namespace

void DocumentBuilder::error(ErrorCode code, const Location& where, std::string message,
                            std::string help) {
  errors_.push_back({code, where, "", std::move(message), std::move(help)});
}

void DocumentBuilder::stop(ErrorCode code, const Location& where, std::string message,
                           std::string help) {
  error(code, where, std::move(message), std::move(help));
  throw Stop{};
}

void DocumentBuilder::check_depth(std::size_t depth, const Location& where) {
  if (depth > kDeepestDocument)
    stop(ErrorCode::kNestingTooDeep, where, "values are nested more than 64 levels deep", "");
}

bool DocumentBuilder::expects_key() const {
  return !frames_.empty() && frames_.back().value.map() && frames_.back().pending == Pending::kKey;
}

void DocumentBuilder::start_document(const Location& where) {
  if (++documents_ < 2) return;
  stop(ErrorCode::kSecondDocument, where, "a second document starts here",
       "keep one recipe in a file");
}

void DocumentBuilder::scalar(const Location& where, const std::string& tag, const std::string& text,
                             std::size_t anchor) {
  const bool plain = tag == "?";
  const bool is_merge = plain && text == "<<";
  if (is_merge && !expects_key()) {
    error(ErrorCode::kYamlSyntax, where, "'<<' cannot be a value", "quote it");
  }
  Value value = yaml_scalar(where, tag, text, errors_);
  if (plain && warnings_.size() < kMaxFound) {
    if (auto trap = yaml_trap(text, value)) warnings_.push_back(*std::move(trap));
  }
  finish(std::move(value), anchor, is_merge);
}

void DocumentBuilder::null(const Location& where, std::size_t anchor) {
  finish({nullptr, where}, anchor, false);
}

void DocumentBuilder::alias(const Location& where, std::size_t anchor) {
  const auto found = anchors_.find(anchor);
  if (found == anchors_.end()) {
    stop(ErrorCode::kYamlSyntax, where, "the alias is inside the value that it stands for",
         "remove the alias, or write the value instead");
  }
  const Size size = measure(found->second);
  aliased_nodes_ += size.nodes;
  aliased_bytes_ += size.bytes;
  if (aliased_nodes_ > kMaxAliasedNodes) {
    stop(ErrorCode::kAliasBomb, where, "aliases expand to more than 10000 values",
         "write fewer aliases of aliases");
  }
  if (aliased_bytes_ > kMaxAliasedBytes) {
    stop(ErrorCode::kAliasBomb, where, "aliases expand to more than 16 MiB of text",
         "write fewer aliases of long strings");
  }
  check_depth(frames_.size() + size.depth, where);
  add(found->second, where, false);
}

void DocumentBuilder::open(Value container, const std::string& tag, std::size_t anchor) {
  check_depth(frames_.size() + 1, container.where);
  const std::string_view core_tag =
      container.list() ? "tag:yaml.org,2002:seq" : "tag:yaml.org,2002:map";
  if (tag != "?" && tag != "!" && !tag.empty() && tag != core_tag) {
    error(ErrorCode::kUnknownTag, container.where, "unknown tag '" + tag + "'", "remove the tag");
  }
  Frame& frame = frames_.emplace_back();
  frame.value = std::move(container);
  frame.anchor = anchor;
}

void DocumentBuilder::close() {
  Frame frame = std::move(frames_.back());
  frames_.pop_back();
  if (!frame.merges.empty()) {
    frame.value.data = merged(std::move(frame.merges), std::move(*frame.value.map()));
  }
  finish(std::move(frame.value), frame.anchor, false);
}

void DocumentBuilder::finish(Value value, std::size_t anchor, bool is_merge) {
  if (errors_.size() >= kMaxFound) throw Stop{};
  if (++nodes_ > kMaxNodes) {
    stop(ErrorCode::kFileTooLarge, value.where, "the file contains more than 100000 values", "");
  }
  if (anchor) anchors_[anchor] = value;
  const Location where = value.where;
  add(std::move(value), where, is_merge);
}

/// Adds a finished value to its parent: the document, a list, or a mapping, as a key or value.
void DocumentBuilder::add(Value value, const Location& where, bool is_merge) {
  if (frames_.empty()) {
    root_ = std::move(value);
    return;
  }
  Frame& frame = frames_.back();
  if (auto* list = frame.value.list()) {
    list->push_back(std::move(value));
    return;
  }
  switch (std::exchange(frame.pending, Pending::kKey)) {
    case Pending::kKey:
      return add_key(frame, value, where, is_merge);
    case Pending::kValue:
      frame.next.value = std::move(value);
      frame.value.map()->push_back(std::move(frame.next));
      return;
    case Pending::kMerge:
      return add_merge(frame, std::move(value), where);
    case Pending::kDropped:
      return;
  }
}

void DocumentBuilder::add_key(Frame& frame, const Value& key, const Location& where,
                              bool is_merge) {
  frame.pending = Pending::kDropped;
  if (key.list() || key.map() || key.is_null()) {
    error(ErrorCode::kNonStringKey, where,
          "a key must be a name or a number, not " + std::string(key.is_null() ? "" : "a ") +
              std::string(type_name(key)),
          key.is_null() ? "write it in quotes if it is a name" : "");
    return;
  }
  std::string name = scalar_text(key);
  const auto [first, is_new] = frame.keys.try_emplace(name, where);
  if (!is_new) {
    errors_.push_back({ErrorCode::kDuplicateKey,
                       where,
                       "",
                       "duplicate key '" + name + "'",
                       "remove one of the two",
                       {{first->second, "first written here"}}});
    return;
  }
  frame.next = {std::move(name), where, {}, key_type(key)};
  frame.pending = is_merge ? Pending::kMerge : Pending::kValue;
}

void DocumentBuilder::add_merge(Frame& frame, Value value, const Location& where) {
  const bool many = value.list() != nullptr;
  Value::List sources = many ? std::move(*value.list()) : Value::List{std::move(value)};
  for (Value& source : sources) {
    if (source.map()) frame.merges.push_back(std::move(source));
    else
      error(ErrorCode::kYamlSyntax, where, "'<<' takes a mapping or a list of mappings",
            "write <<: *name, or <<: [*a, *b]");
  }
}

}  // namespace runner
