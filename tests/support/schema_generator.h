#pragma once

#include <cstdint>
#include <random>
#include <string>

#include <nlohmann/json.hpp>

/// Random schemas of the supported subset, and random values that often match them. The same on
/// every machine.
class SchemaGenerator {
 public:
  explicit SchemaGenerator(std::uint32_t seed) : random_(seed) {}

  nlohmann::json schema(int depth = 3) {
    nlohmann::json result = nlohmann::json::object();
    const auto keywords = 1 + below(3);
    for (std::uint32_t i = 0; i < keywords; ++i) add_keyword(result, depth);
    return result;
  }

  nlohmann::json value(int depth = 3) {
    switch (below(depth > 0 ? 9 : 6)) {
      case 0:
        return nullptr;
      case 1:
        return below(2) == 0;
      case 2:
      case 3:
        return static_cast<int>(below(9)) - 2;
      case 4:
        return below(16) / 4.0 + 0.125;
      case 5:
        return word();
      case 6: {
        auto list = nlohmann::json::array();
        for (std::uint32_t i = below(4); i > 0; --i) list.push_back(value(depth - 1));
        return list;
      }
      default: {
        auto map = nlohmann::json::object();
        for (std::uint32_t i = below(4); i > 0; --i) map[key()] = value(depth - 1);
        return map;
      }
    }
  }

  std::uint32_t below(std::uint32_t end) { return random_() % end; }

 private:
  std::string word() {
    constexpr const char* kWords[] = {"", "a", "ab", "abc", "b1", "öl", "1"};
    return kWords[below(7)];
  }
  std::string key() { return std::string(1, static_cast<char>('a' + below(4))); }
  int small() { return static_cast<int>(below(4)); }

  nlohmann::json schemas(int depth) {
    auto list = nlohmann::json::array();
    for (std::uint32_t i = 1 + below(3); i > 0; --i) list.push_back(schema(depth - 1));
    return list;
  }

  nlohmann::json named(int depth) {
    auto map = nlohmann::json::object();
    for (std::uint32_t i = 1 + below(3); i > 0; --i) map[key()] = schema(depth - 1);
    return map;
  }

  void add_keyword(nlohmann::json& schema, int depth) {
    constexpr const char* kTypes[] = {"null",   "boolean", "integer", "number",
                                      "string", "array",   "object"};
    switch (below(depth > 0 ? 31 : 19)) {
      case 0:
      case 1:
      case 2:
        schema["type"] = kTypes[below(7)];
        break;
      case 3:
        schema["type"] = {kTypes[below(3)], kTypes[4 + below(3)]};
        break;
      case 4:
        schema["enum"] = {value(1), value(1), value(0)};
        break;
      case 5:
        schema["const"] = value(1);
        break;
      case 6:
        schema["minimum"] = small() - 1;
        break;
      case 7:
        schema["maximum"] = small() + 0.125;
        break;
      case 8:
        schema["exclusiveMinimum"] = small() - 1;
        break;
      case 9:
        schema["exclusiveMaximum"] = small() + 1;
        break;
      case 10:
        // valijson accepts 2.5 as a multiple of 1, and the string "1" as a number, so only integers
        // get this far.
        schema["allOf"] = {{{"type", "integer"}, {"multipleOf", 1 + small()}}};
        break;
      case 11:
        schema["minLength"] = small();
        break;
      case 12:
        schema["maxLength"] = small();
        break;
      case 13:
        schema["pattern"] = below(2) ? "^[a-b]+$" : "b";
        break;
      case 14:
        schema["minItems"] = small();
        break;
      case 15:
        schema["maxItems"] = small();
        break;
      case 16:
        schema["uniqueItems"] = true;
        break;
      case 17:
        schema["minProperties"] = small();
        break;
      case 18:
        schema["maxProperties"] = small();
        break;
      case 19:
      case 20:
        schema["items"] = this->schema(depth - 1);
        break;
      case 21:
      case 22:
      case 23:
        schema["properties"] = named(depth);
        break;
      case 24:
        schema["required"] = nlohmann::json::array({key()});
        break;
      case 25:
        schema["additionalProperties"] = below(2) ? nlohmann::json(false) : this->schema(depth - 1);
        break;
      case 26:
        schema["patternProperties"] = {{"^[a-b]$", this->schema(depth - 1)}};
        break;
      case 27:
        schema["anyOf"] = schemas(depth);
        break;
      case 28:
        schema["oneOf"] = schemas(depth);
        break;
      case 29:
        schema["allOf"] = schemas(depth);
        break;
      default:
        schema["not"] = this->schema(depth - 1);
        break;
    }
  }

  std::mt19937 random_;
};
