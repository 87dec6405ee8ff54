#include "runner/shared/value/flat_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

void add_flat(const Json& json, const std::string& key,
              std::vector<std::pair<std::string, std::string>>& values) {
  if (json.is_object() && !json.empty()) {
    for (const auto& [name, value] : json.items())
      add_flat(value, key.empty() ? name : key + "." + name, values);
  } else if (!key.empty()) {
    values.emplace_back(key, json.is_string()
                                 ? json.get<std::string>()
                                 : json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> flat_json(const Json& object) {
  std::vector<std::pair<std::string, std::string>> values;
  add_flat(object, "", values);
  return values;
}

}  // namespace runner
