#include "runner/config/yaml_reader.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <unordered_map>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "runner/config/scalar.h"
#include "runner/utf8.h"

namespace runner {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxAliasedNodes = 10'000;
constexpr std::size_t kMaxNodes = 100'000;
constexpr std::size_t kMaxErrors = 100;

/// Thrown through yaml-cpp when reading on makes no sense; the diagnostic is recorded before.
struct Stop {};

Location place(const SourceText& source, std::size_t offset) {
  const std::string_view before = std::string_view(source.contents).substr(0, offset);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto line = 1 + std::ranges::count(before, '\n');
  return {&source, static_cast<int>(line), static_cast<int>(offset - line_start) + 1};
}

struct Size {
  std::size_t nodes = 1;
  int depth = 0;  ///< of containers
};

Size measure(const Value& value) {
  Size size;
  const auto add = [&](const Value& child) {
    const Size below = measure(child);
    size.nodes += below.nodes;
    size.depth = std::max(size.depth, below.depth);
  };
  if (const auto* list = value.list()) std::ranges::for_each(*list, add);
  if (const auto* map = value.map()) std::ranges::for_each(*map, add, &Entry::value);
  if (value.list() || value.map()) ++size.depth;
  return size;
}

/// Builds the Value of one document from yaml-cpp's events. Events, not nodes: they show duplicate keys, anchors
/// and tags, and leave the bounds on depth and size to us.
class Builder : public YAML::EventHandler {
 public:
  Builder(const SourceText& source, Diagnostics& errors) : source_(source), errors_(errors) {}

  int documents = 0;
  Value root;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents < 2) return;
    stop(ErrorCode::kSecondDocument, at(mark), "a second document starts here", "keep one recipe in a file");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { finish({nullptr, at(mark)}, anchor, false); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      stop(ErrorCode::kYamlSyntax, at(mark), "the alias stands inside the value that it names", "");
    }
    const Size size = measure(found->second);
    aliased_nodes_ += size.nodes;
    if (aliased_nodes_ > kMaxAliasedNodes) {
      stop(ErrorCode::kAliasBomb, at(mark), "aliases expand to more than 10000 values",
           "write fewer aliases of aliases");
    }
    check_depth(static_cast<int>(frames_.size()) + size.depth, at(mark));
    add(found->second, at(mark), false);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    const bool plain = tag == "?";
    const bool is_merge = plain && text == "<<";
    if (is_merge && !expects_key())
      error(ErrorCode::kYamlSyntax, at(mark), "'<<' stands where a value belongs", "quote it");
    finish({scalar(at(mark), tag, text), at(mark)}, anchor, is_merge);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open({Value::List{}, at(mark)}, tag, "tag:yaml.org,2002:seq", anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open({Value::Map{}, at(mark)}, tag, "tag:yaml.org,2002:map", anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  enum class Pending { kNothing, kValue, kMerge, kDropped };

  /// A container whose end has not been seen.
  struct Frame {
    Value value;
    YAML::anchor_t anchor = 0;
    Pending pending = Pending::kNothing;  ///< what to do with the value of the key just read
    std::string key;
    Location key_where;
    std::unordered_map<std::string, Location> keys = {};
    std::vector<Value> merges = {};
  };

  Location at(const YAML::Mark& mark) const { return {&source_, mark.line + 1, mark.column + 1}; }

  void error(ErrorCode code, Location where, std::string message, std::string help) {
    errors_.push_back({code, where, "", std::move(message), std::move(help)});
  }
  [[noreturn]] void stop(ErrorCode code, Location where, std::string message, std::string help) {
    error(code, where, std::move(message), std::move(help));
    throw Stop{};
  }
  void check_depth(int depth, const Location& where) {
    if (depth > kMaxDepth) stop(ErrorCode::kNestingTooDeep, where, "values are nested more than 64 deep", "");
  }

  bool expects_key() const {
    return !frames_.empty() && frames_.back().value.map() && frames_.back().pending == Pending::kNothing;
  }

  Scalar scalar(Location where, const std::string& tag, const std::string& text) {
    constexpr std::string_view kCore = "tag:yaml.org,2002:";
    if (tag == "!" || tag.empty() || tag == "tag:yaml.org,2002:str") return text;
    const bool core = tag.starts_with(kCore);
    const std::string wanted = core ? tag.substr(kCore.size()) : "";
    if (tag != "?" && wanted != "int" && wanted != "float" && wanted != "bool" && wanted != "null") {
      error(ErrorCode::kUnknownTag, where, "unknown tag '" + (core ? "!!" + wanted : tag) + "'",
            "remove the tag; !!str, !!int, !!float, !!bool and !!null are understood");
      return text;
    }
    std::optional<Scalar> value = plain_scalar(text);
    if (!value) {
      error(ErrorCode::kNumberOutOfRange, where, "the integer '" + text + "' does not fit 64 bits",
            "write it in quotes if it is a name");
      return std::int64_t{0};
    }
    if (wanted == "float" && std::holds_alternative<std::int64_t>(*value)) {
      return static_cast<double>(std::get<std::int64_t>(*value));
    }
    const bool fits = tag == "?" || (wanted == "int" && std::holds_alternative<std::int64_t>(*value)) ||
                      (wanted == "float" && std::holds_alternative<double>(*value)) ||
                      (wanted == "bool" && std::holds_alternative<bool>(*value)) ||
                      (wanted == "null" && std::holds_alternative<std::nullptr_t>(*value));
    if (!fits) error(ErrorCode::kYamlSyntax, where, "'" + text + "' cannot be read as !!" + wanted, "remove the tag");
    return *std::move(value);
  }

  void open(Value container, const std::string& tag, std::string_view core_tag, YAML::anchor_t anchor) {
    check_depth(static_cast<int>(frames_.size()) + 1, container.where);
    if (tag != "?" && tag != "!" && !tag.empty() && tag != core_tag) {
      error(ErrorCode::kUnknownTag, container.where, "unknown tag '" + tag + "'", "remove the tag");
    }
    Frame& frame = frames_.emplace_back();
    frame.value = std::move(container);
    frame.anchor = anchor;
  }

  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    if (!frame.merges.empty()) apply_merges(frame);
    finish(std::move(frame.value), frame.anchor, false);
  }

  void finish(Value value, YAML::anchor_t anchor, bool is_merge) {
    if (errors_.size() >= kMaxErrors) throw Stop{};
    if (++nodes_ > kMaxNodes) {
      stop(ErrorCode::kFileTooLarge, value.where, "the file holds more than 100000 values", "");
    }
    if (anchor) anchors_[anchor] = value;
    const Location where = value.where;
    add(std::move(value), where, is_merge);
  }

  /// Puts a finished value where it belongs: the document, a list, or as a key or value into a mapping.
  void add(Value value, Location where, bool is_merge) {
    if (frames_.empty()) {
      root = std::move(value);
      return;
    }
    Frame& frame = frames_.back();
    if (auto* list = frame.value.list()) {
      list->push_back(std::move(value));
      return;
    }
    switch (std::exchange(frame.pending, Pending::kNothing)) {
      case Pending::kNothing:
        return add_key(frame, value, where, is_merge);
      case Pending::kValue:
        frame.value.map()->push_back({frame.key, frame.key_where, std::move(value)});
        return;
      case Pending::kMerge:
        return add_merge(frame, std::move(value), where);
      case Pending::kDropped:
        return;
    }
  }

  void add_key(Frame& frame, const Value& key, Location where, bool is_merge) {
    frame.pending = Pending::kDropped;
    if (!key.text()) {
      const bool is_container = key.list() || key.map();
      const std::string written = is_container ? "" : scalar_text(key);
      error(ErrorCode::kNonStringKey, where,
            "a key must be a string, not " + std::string(is_container ? "a " : "") + std::string(type_name(key)),
            is_container ? "" : "write it in quotes: \"" + written + "\"");
      return;
    }
    const auto [first, is_new] = frame.keys.try_emplace(*key.text(), where);
    if (!is_new) {
      errors_.push_back({ErrorCode::kDuplicateKey,
                         where,
                         "",
                         "duplicate key '" + *key.text() + "'",
                         "remove one of the two",
                         {{first->second, "first written here"}}});
      return;
    }
    frame.key = *key.text();
    frame.key_where = where;
    frame.pending = is_merge ? Pending::kMerge : Pending::kValue;
  }

  void add_merge(Frame& frame, Value value, Location where) {
    const bool many = value.list() != nullptr;
    Value::List sources = many ? std::move(*value.list()) : Value::List{std::move(value)};
    for (Value& source : sources) {
      if (source.map()) {
        frame.merges.push_back(std::move(source));
      } else {
        error(ErrorCode::kYamlSyntax, where, "'<<' takes a mapping or a list of mappings", "");
      }
    }
  }

  /// Merged keys come first; what the mapping says itself wins, then the earlier source.
  static void apply_merges(Frame& frame) {
    Value::Map own = std::move(*frame.value.map());
    Value::Map result;
    std::unordered_map<std::string, std::size_t> index;
    const auto put = [&](Entry entry, bool wins) {
      const auto [found, is_new] = index.try_emplace(entry.key, result.size());
      if (is_new) {
        result.push_back(std::move(entry));
      } else if (wins) {
        result[found->second] = std::move(entry);
      }
    };
    for (Value& source : frame.merges) {
      for (Entry& entry : *source.map()) put(std::move(entry), false);
    }
    for (Entry& entry : own) put(std::move(entry), true);
    frame.value.data = std::move(result);
  }

  const SourceText& source_;
  Diagnostics& errors_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, Value> anchors_;
  std::size_t nodes_ = 0;
  std::size_t aliased_nodes_ = 0;
};

/// yaml-cpp would take byte 4 for the end of the file, and stops understanding at others.
std::optional<std::size_t> control_character(std::string_view text) {
  const auto is_control = [](unsigned char c) {
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
  };
  const auto found = std::ranges::find_if(text, is_control);
  if (found == text.end()) return std::nullopt;
  return found - text.begin();
}

/// Brackets nested far beyond what we take, found before yaml-cpp's scanner has to hold them all. Brackets in
/// comments and strings count as well, so the bound is generous.
std::optional<std::size_t> hopeless_nesting(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '{') ++depth;
    if ((text[i] == ']' || text[i] == '}') && depth > 0) --depth;
    if (depth > 1000) return i;
  }
  return std::nullopt;
}

Diagnostic syntax_error(const SourceText& source, const YAML::Exception& exception) {
  const YAML::Mark& mark = exception.mark;
  const Location where = mark.is_null() ? Location{&source, 1, 1} : Location{&source, mark.line + 1, mark.column + 1};
  std::string message = "cannot read the YAML: " + exception.msg;
  std::ranges::replace(message, '\n', ' ');
  const std::size_t offset = std::min<std::size_t>(mark.is_null() ? 0 : mark.pos, source.contents.size());
  const std::size_t start = std::string_view(source.contents).substr(0, offset).rfind('\n') + 1;
  const std::string_view line =
      std::string_view(source.contents).substr(start, source.contents.find('\n', start) - start);
  std::string help;
  if (line.find_first_not_of(" \t") != line.find_first_not_of(' ')) help = "indent with spaces, not with tabs";
  if (line.find("${") != std::string_view::npos)
    help = "inside [...] and {...} an interpolation must be quoted: '${a.b}'";
  const bool unquoted_mandatory =
      line.find("???") != std::string_view::npos && line.find_first_of("[{") != std::string_view::npos;
  if (unquoted_mandatory) help = "inside [...] and {...} the mark ??? must be quoted";
  return {ErrorCode::kYamlSyntax, where, "", std::move(message), std::move(help)};
}

}  // namespace

Result<Value> read_yaml(const SourceText& source) {
  std::string_view text = source.contents;
  if (const auto offset = invalid_utf8(text)) {
    return Diagnostic{ErrorCode::kInvalidUtf8, place(source, *offset), "", "the text is not UTF-8",
                      "save the file as UTF-8"};
  }
  if (const auto offset = control_character(text)) {
    return Diagnostic{ErrorCode::kYamlSyntax, place(source, *offset), "", "a control character",
                      "remove it, or write it as an escape in double quotes"};
  }
  if (const auto offset = hopeless_nesting(text)) {
    return Diagnostic{ErrorCode::kNestingTooDeep, place(source, *offset), "", "values are nested more than 64 deep",
                      ""};
  }
  Diagnostics errors;
  Builder builder(source, errors);
  try {
    std::istringstream stream(source.contents);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop&) {
  } catch (const YAML::Exception& exception) {
    errors.push_back(syntax_error(source, exception));
  }
  if (!errors.empty()) return errors;
  if (builder.documents == 0 || builder.root.is_null()) return Value{Value::Map{}, {&source, 1, 1}};
  return std::move(builder.root);
}

}  // namespace runner
