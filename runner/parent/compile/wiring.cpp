#include "runner/parent/compile/wiring.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

constexpr std::string_view kOpening = "${item.";

/// Formats a value as part of a name or a string: lists joined by '-', strings unquoted.
std::string as_text(const Value& value, bool hide_secrets = true) {
  if (const auto* text = hide_secrets ? value.text() : value.reveal()) return *text;
  if (const auto* list = value.list()) {
    std::string joined;
    for (const Value& element : *list)
      joined += (joined.empty() ? "" : "-") + as_text(element, hide_secrets);
    return joined;
  }
  return to_json(value, hide_secrets).dump();
}

class Filler {
 public:
  explicit Filler(const ForeachItem& item) : item_(item) {}

  void fill(Value& value, const std::string& pointer) {
    if (value.reveal() && value.reveal()->find(kOpening) != std::string::npos) {
      value = filled_text(value, *value.reveal(), pointer);
    } else if (auto* list = value.list()) {
      for (std::size_t i = 0; i < list->size(); ++i)
        fill((*list)[i], pointer_to(pointer, std::to_string(i)));
    } else if (auto* map = value.map()) {
      for (Entry& entry : *map) fill(entry.value, pointer_to(pointer, entry.key));
    }
  }

  Diagnostics errors;

 private:
  Value filled_text(const Value& value, const std::string& text, const std::string& pointer) {
    std::string filled;
    bool is_secret = !value.secret_as.empty();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = text.find(kOpening, at);
      const std::size_t end = begin == std::string::npos ? begin : text.find('}', begin);
      if (end == std::string::npos) {
        filled += text.substr(at);
        break;
      }
      const std::optional<Value> found = look_up(
          text.substr(begin + kOpening.size(), end - begin - kOpening.size()), value, pointer);
      if (!found) return value;
      if (begin == 0 && end + 1 == text.size()) {
        Value whole = *found;
        whole.where = value.where;
        return whole;
      }
      const std::string part = as_text(*found, false);
      is_secret = is_secret || part != as_text(*found);
      filled += text.substr(at, begin - at) + part;
      at = end + 1;
    }
    Value result = value;
    result.data = std::move(filled);
    if (is_secret && result.secret_as.empty()) result.secret_as = text;
    return result;
  }

  /// Looks up `path`, such as "pair" or "pair[0]", in the item. Adds an error and returns nullopt
  /// if it does not exist.
  std::optional<Value> look_up(const std::string& path, const Value& value,
                               const std::string& pointer) {
    const std::string key = path.substr(0, path.find('['));
    const auto found = std::ranges::find(item_, key, &ForeachItem::value_type::first);
    if (found == item_.end()) {
      std::vector<std::string> keys;
      for (const auto& [name, ignored] : item_) keys.push_back(name);
      std::string help = did_you_mean(key, keys);
      if (help.empty() && keys.empty()) help = "add to the stage: foreach: {" + key + ": [...]}";
      errors.push_back({ErrorCode::kUnknownItem, value.where, pointer,
                        "foreach has no key '" + key + "'", help});
      return std::nullopt;
    }
    if (key.size() == path.size()) return found->second;
    std::size_t index = 0;
    const char* const end = path.data() + path.size() - 1;
    const auto [stop, problem] = std::from_chars(path.data() + key.size() + 1, end, index);
    const auto* list = found->second.list();
    if (path.back() == ']' && problem == std::errc() && stop == end && list && index < list->size())
      return (*list)[index];
    errors.push_back({ErrorCode::kUnknownItem, value.where, pointer,
                      "'item." + path + "' does not exist",
                      "item." + key + " is " + describe(found->second)});
    return std::nullopt;
  }

  const ForeachItem& item_;
};

}  // namespace

std::size_t item_count(const Value* foreach, std::size_t limit) {
  std::size_t count = 1;
  for (const Entry& entry : foreach ? *foreach->map() : Value::Map()) {
    count *= entry.value.list()->size();
    if (count > limit) return limit + 1;
  }
  return count;
}

std::vector<ForeachItem> items(const Value* foreach) {
  std::vector<ForeachItem> result = {{}};
  if (!foreach) return result;
  for (const Entry& entry : *foreach->map()) {
    std::vector<ForeachItem> longer;
    for (const ForeachItem& item : result) {
      for (const Value& value : *entry.value.list()) {
        longer.push_back(item);
        longer.back().emplace_back(entry.key, value);
      }
    }
    result = std::move(longer);
  }
  return result;
}

std::string node_id(const StageSpec& stage, const ForeachItem& item) {
  std::string id = stage.name;
  for (std::size_t i = 0; i < item.size(); ++i)
    id += (i == 0 ? "." : "_") + as_text(item[i].second);
  const auto is_allowed = [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-';
  };
  std::ranges::replace_if(id, std::not_fn(is_allowed), '_');
  return id;
}

std::string node_title(const StageSpec& stage, const ForeachItem& item) {
  std::string values;
  for (const auto& [key, value] : item)
    values += (values.empty() ? "" : ", ") + key + "=" + as_text(value);
  return values.empty() ? stage.name : stage.name + "[" + values + "]";
}

bool agree(const ForeachItem& a, const ForeachItem& b) {
  return std::ranges::all_of(a, [&](const auto& pair) {
    const auto other = std::ranges::find(b, pair.first, &ForeachItem::value_type::first);
    return other == b.end() || same_data(pair.second, other->second);
  });
}

Result<Value> fill_in(Value options, const ForeachItem& item, const std::string& pointer) {
  Filler filler(item);
  filler.fill(options, pointer);
  if (!filler.errors.empty()) return filler.errors;
  return options;
}

namespace {

class Wiring {
 public:
  Wiring(const std::vector<Draft>& drafts, std::size_t consumer, Diagnostics& errors)
      : drafts_(drafts),
        consumer_(drafts[consumer]),
        pointer_(pointer_to("", consumer_.stage->name)),
        errors_(errors) {}

  std::vector<Wire> run() {
    const Value* inputs = consumer_.stage->options.find("inputs");
    if (inputs) refuse_unknown_ports(*inputs);
    std::vector<Wire> wires;
    for (const Port& port : consumer_.kind->inputs) {
      const Value* written = inputs ? inputs->find(port.name) : nullptr;
      wires.push_back({&port, written ? by_hand(port, *written) : by_type(port)});
    }
    return wires;
  }

 private:
  void refuse_unknown_ports(const Value& inputs) {
    std::vector<std::string> names;
    for (const Port& port : consumer_.kind->inputs) names.push_back(port.name);
    for (const Entry& entry : *inputs.map()) {
      if (std::ranges::count(names, entry.key)) continue;
      fail(ErrorCode::kUnknownPort, entry.key_where, pointer_ + pointer_to("/inputs", entry.key),
           "'" + consumer_.kind->name + "' has no input port '" + entry.key + "'",
           help_for(entry.key, names, "input ports"));
    }
  }

  static std::string help_for(const std::string& word, const std::vector<std::string>& names,
                              const std::string& what) {
    if (std::string help = did_you_mean(word, names); !help.empty()) return help;
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return what + ": " + (list.empty() ? "none" : list);
  }

  std::vector<Source> by_hand(const Port& port, const Value& written) {
    const std::string pointer = pointer_ + pointer_to("/inputs", port.name);
    std::vector<Source> sources;
    const auto add = [&](const Value& one) {
      const auto found = named(port, *one.text(), one.where, pointer);
      sources.insert(sources.end(), found.begin(), found.end());
    };
    if (const auto* list = written.list()) std::ranges::for_each(*list, add);
    else add(written);
    if (!port.many && sources.size() > 1) {
      fail(ErrorCode::kAmbiguousPort, written.where, pointer,
           "the input port '" + port.name + "' takes one output, but is given " +
               std::to_string(sources.size()),
           "leave out all but one of them");
    }
    return sources;
  }

  /// Returns the sources named by `text`, such as "data.train". Reports an error if the stage or
  /// the output does not exist or has a different type.
  std::vector<Source> named(const Port& port, const std::string& text, const Location& where,
                            const std::string& pointer) {
    const std::string stage = text.substr(0, text.find('.'));
    const std::string output = stage.size() < text.size() ? text.substr(stage.size() + 1) : "";
    std::vector<std::string> stages, outputs;
    std::vector<Source> sources;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      if (std::ranges::count(stages, drafts_[i].stage->name) == 0)
        stages.push_back(drafts_[i].stage->name);
      if (drafts_[i].stage->name != stage) continue;
      for (const Port& candidate : drafts_[i].kind->outputs) {
        if (std::ranges::count(outputs, candidate.name) == 0) outputs.push_back(candidate.name);
        if (candidate.name != output) continue;
        if (candidate.type != port.type) {
          fail(ErrorCode::kPortTypeMismatch, where, pointer,
               "'" + text + "' is a " + std::string(name(candidate.type)) +
                   ", but the input port '" + port.name + "' takes a " +
                   std::string(name(port.type)),
               "`retort stages` lists the outputs of each kind with their types");
          return {};
        }
        if (agree(drafts_[i].item, consumer_.item)) sources.push_back({i, &candidate});
      }
    }
    if (std::ranges::count(stages, stage) == 0) {
      fail(ErrorCode::kUnknownPort, where, pointer, "there is no stage '" + stage + "'",
           help_for(stage, stages, "stages"));
    } else if (std::ranges::count(outputs, output) == 0) {
      fail(ErrorCode::kUnknownPort, where, pointer,
           "the stage '" + stage + "' has no output port '" + output + "'",
           help_for(output, outputs, "output ports"));
    }
    return sources;
  }

  std::vector<Source> by_type(const Port& port) {
    std::vector<Source> of_type, of_name;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      if (drafts_[i].stage == consumer_.stage || !agree(drafts_[i].item, consumer_.item)) continue;
      for (const Port& output : drafts_[i].kind->outputs) {
        if (output.type != port.type) continue;
        of_type.push_back({i, &output});
        if (output.name == port.name) of_name.push_back({i, &output});
      }
    }
    const std::vector<Source>& sources = !of_name.empty() || port.optional ? of_name : of_type;
    if (sources.empty() && !port.optional) unwired(port);
    if (sources.size() > 1 && !port.many) ambiguous(port, sources);
    return sources;
  }

  void unwired(const Port& port) {
    fail(ErrorCode::kUnwiredPort, consumer_.stage->name_where, pointer_,
         "nothing feeds the input port '" + port.name + "': no other stage outputs a " +
             std::string(name(port.type)),
         "add such a stage: `retort stages` lists the kinds with their outputs");
  }

  void ambiguous(const Port& port, const std::vector<Source>& sources) {
    std::string list;
    std::vector<Note> notes;
    std::set<const StageSpec*> noted;
    for (const Source& source : sources) {
      const StageSpec& stage = *drafts_[source.draft].stage;
      list += (list.empty() ? "" : ", ") + drafts_[source.draft].id + "." + source.port->name;
      if (noted.insert(&stage).second)
        notes.push_back({stage.name_where, "this stage has one of the outputs"});
    }
    const bool from_foreach = noted.size() == 1;
    errors_.push_back(
        {ErrorCode::kAmbiguousPort, consumer_.stage->name_where, pointer_,
         "the input port '" + port.name + "' is ambiguous: several outputs match: " + list,
         from_foreach
             ? "give this stage the same foreach, or use a kind with a port that takes many outputs"
             : "choose one: inputs: {" + port.name + ": " +
                   drafts_[sources.front().draft].stage->name + "." + sources.front().port->name +
                   "}",
         std::move(notes)});
  }

  void fail(ErrorCode code, const Location& where, const std::string& pointer, std::string message,
            std::string help) {
    errors_.push_back({code, where, pointer, std::move(message), std::move(help)});
  }

  const std::vector<Draft>& drafts_;
  const Draft& consumer_;
  const std::string pointer_;
  Diagnostics& errors_;
};

}  // namespace

std::vector<Wire> wire(const std::vector<Draft>& drafts, std::size_t consumer,
                       Diagnostics& errors) {
  return Wiring(drafts, consumer, errors).run();
}

}  // namespace runner
