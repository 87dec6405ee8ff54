#include "runner/parent/compile/foreach.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include <nlohmann/json.hpp>

#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

constexpr std::string_view kOpening = "${item.";

/// A value as part of a name or a text: lists joined by '-', strings bare.
std::string as_text(const Value& value) {
  if (const auto* text = value.text()) return *text;
  if (const auto* list = value.list()) {
    std::string joined;
    for (const Value& element : *list) joined += (joined.empty() ? "" : "-") + as_text(element);
    return joined;
  }
  return to_json(value).dump();
}

class Filler {
 public:
  explicit Filler(const ForeachItem& item) : item_(item) {}

  void fill(Value& value, const std::string& pointer) {
    if (value.text() && value.text()->find(kOpening) != std::string::npos) {
      value = filled_text(value, *value.text(), pointer);
    } else if (auto* list = value.list()) {
      for (std::size_t i = 0; i < list->size(); ++i) fill((*list)[i], pointer_to(pointer, std::to_string(i)));
    } else if (auto* map = value.map()) {
      for (Entry& entry : *map) fill(entry.value, pointer_to(pointer, entry.key));
    }
  }

  Diagnostics errors;

 private:
  Value filled_text(const Value& value, const std::string& text, const std::string& pointer) {
    std::string filled;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = text.find(kOpening, at);
      const std::size_t end = begin == std::string::npos ? begin : text.find('}', begin);
      if (end == std::string::npos) {
        filled += text.substr(at);
        break;
      }
      const std::optional<Value> found =
          look_up(text.substr(begin + kOpening.size(), end - begin - kOpening.size()), value, pointer);
      if (!found) return value;
      if (begin == 0 && end + 1 == text.size()) {
        Value whole = *found;
        whole.where = value.where;
        return whole;
      }
      filled += text.substr(at, begin - at) + as_text(*found);
      at = end + 1;
    }
    Value result = value;
    result.data = std::move(filled);
    return result;
  }

  /// `path`: "pair" or "pair[0]".
  std::optional<Value> look_up(const std::string& path, const Value& value, const std::string& pointer) {
    const std::string key = path.substr(0, path.find('['));
    const auto found = std::ranges::find(item_, key, &ForeachItem::value_type::first);
    if (found == item_.end()) {
      std::vector<std::string> keys;
      for (const auto& [name, ignored] : item_) keys.push_back(name);
      std::string help = did_you_mean(key, keys);
      if (help.empty() && keys.empty()) help = "give the stage a foreach: {" + key + ": [...]}";
      errors.push_back({ErrorCode::kUnknownItem, value.where, pointer, "foreach has no key '" + key + "'", help});
      return std::nullopt;
    }
    if (key.size() == path.size()) return found->second;
    std::size_t index = 0;
    const char* const end = path.data() + path.size() - 1;
    const auto [stop, problem] = std::from_chars(path.data() + key.size() + 1, end, index);
    const auto* list = found->second.list();
    if (path.back() == ']' && problem == std::errc() && stop == end && list && index < list->size())
      return (*list)[index];
    errors.push_back({ErrorCode::kUnknownItem, value.where, pointer, "'item." + path + "' is not there",
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
  for (std::size_t i = 0; i < item.size(); ++i) id += (i == 0 ? "." : "_") + as_text(item[i].second);
  const auto is_allowed = [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; };
  std::ranges::replace_if(id, std::not_fn(is_allowed), '_');
  return id;
}

std::string node_title(const StageSpec& stage, const ForeachItem& item) {
  std::string values;
  for (const auto& [key, value] : item) values += (values.empty() ? "" : ", ") + key + "=" + as_text(value);
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

}  // namespace runner
