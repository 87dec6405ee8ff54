#include "runner/parent/config/difference.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runner/parent/config/provenance.h"

namespace runner {
namespace {

std::string dotted(const std::vector<std::string>& path) {
  std::string key;
  for (const std::string& name : path) key += (key.empty() ? "" : ".") + name;
  return key;
}

void collect(const std::vector<std::string>& path, const Value* before, const Value* after,
             std::vector<Difference>& result) {
  const auto below = [&](const std::string& name) {
    std::vector<std::string> longer = path;
    longer.push_back(name);
    return longer;
  };
  const auto opens = [](const Value* value) { return value && value->map() && !value->map()->empty(); };
  const bool both_map = before && after && before->map() && after->map();
  if (both_map || (opens(before) && !after) || (opens(after) && !before)) {
    if (before) {
      for (const Entry& entry : *before->map()) {
        collect(below(entry.key), &entry.value, after ? after->find(entry.key) : nullptr, result);
      }
    }
    if (after) {
      for (const Entry& entry : *after->map()) {
        if (!before || !before->find(entry.key)) collect(below(entry.key), nullptr, &entry.value, result);
      }
    }
    return;
  }
  if (before && after && same_data(*before, *after)) return;
  result.push_back({dotted(path), before ? std::optional(*before) : std::nullopt,
                    after ? std::optional(*after) : std::nullopt, path});
}

std::string text_of(const Value& value) {
  const nlohmann::ordered_json json = to_json(value);
  return json.is_string() && value.text() && value.secret_as.empty() ? *value.text() : json.dump();
}

std::string both_of(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + " -> " + b;
}

}  // namespace

std::vector<Difference> differences(const Value& before, const Value& after) {
  std::vector<Difference> result;
  collect({}, &before, &after, result);
  return result;
}

std::string differences_text(const std::vector<Difference>& differences) {
  constexpr std::size_t kWidest = 60;  // a longer line does not push the origins of the others away
  std::vector<std::pair<std::string, std::string>> lines;
  std::size_t width = 0;
  for (const auto& [key, before, after, path] : differences) {
    const char mark = before && after ? '~' : before ? '-' : '+';
    const std::string values = both_of(before ? text_of(*before) : "", after ? text_of(*after) : "");
    lines.push_back({std::string(1, mark) + " " + key + ": " + values,
                     both_of(before ? origin_text(before->where) : "", after ? origin_text(after->where) : "")});
    if (lines.back().first.size() <= kWidest) width = std::max(width, lines.back().first.size());
  }
  std::string text;
  for (const auto& [line, origin] : lines) {
    const std::size_t padding = line.size() < width ? width - line.size() : 0;
    text += line + (origin.empty() ? "" : std::string(padding, ' ') + "    # " + origin) + "\n";
  }
  return text;
}

nlohmann::ordered_json differences_json(const std::vector<Difference>& differences) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [key, before, after, path] : differences) {
    nlohmann::ordered_json entry = {{"key", key}};
    if (before) entry.update({{"before", to_json(*before)}, {"before_origin", origin_text(before->where)}});
    if (after) entry.update({{"after", to_json(*after)}, {"after_origin", origin_text(after->where)}});
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace runner
