// The words that schemas allow and the words that the code knows are the same: each kind accepts
// every word of its schema, and no other.

#include <filesystem>
#include <functional>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/stages.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using Place = Json::json_pointer;

/// Options of a kind with one of the words that its schema allows at a pointer.
struct Worded {
  Json options;
  Place place;
};

/// Reads the schema in a file; its references name the file that they refer to.
Json schema_in(const std::string& file) {
  const std::function<void(Json&)> complete = [&](Json& part) {
    if (!part.is_structured()) return;
    if (part.is_object() && part.value("$ref", "").starts_with('#'))
      part["$ref"] = file + part.value("$ref", "");
    for (Json& inner : part) complete(inner);
  };
  Json schema = schema_at(file);
  complete(schema);
  return schema;
}

Json resolved(const Json& property) {
  return property.contains("$ref") ? schema_at(property["$ref"].get<std::string>()) : property;
}

/// Returns the words among the values that a property may have.
std::set<std::string> words_of(const Json& property) {
  std::set<std::string> words;
  for (const Json& value : property.value("enum", Json::array())) {
    if (value.is_string()) words.insert(value);
  }
  for (const Json& alternative : property.value("anyOf", Json::array())) {
    words.merge(words_of(resolved(alternative)));
  }
  return words;
}

/// Returns all words of the mapping at `place` of `options`, which follows `schema`.
void add_words(const Json& schema, const Json& options, const Place& place,
               std::vector<Worded>& all) {
  for (const auto& [key, property] : schema.at("properties").items()) {
    const Json inside = resolved(property);
    for (const std::string& word : words_of(inside)) {
      Worded& one = all.emplace_back(Worded{options, place / key});
      one.options[one.place] = word;
    }
    if (inside.contains("x-kinds")) {
      const std::string folder = inside["x-kinds"];
      for (const auto& file : std::filesystem::directory_iterator(std::string(RETORT_SOURCE_DIR) +
                                                                  "/schemas/" + folder)) {
        const Json kind = schema_in(folder + "/" + file.path().filename().string());
        Json with_kind = options;
        with_kind[place / key] =
            with_defaults(kind, {{"kind", kind["properties"]["kind"]["const"]}});
        all.push_back({with_kind, place / key / "kind"});
        add_words(kind, with_kind, place / key, all);
      }
    } else if (inside.contains("properties") && options.contains(place / key)) {
      add_words(inside, options, place / key, all);
    }
  }
}

std::vector<Worded> words_of_kind(std::string name) {
  std::ranges::replace(name, '.', '/');
  const Json schema = schema_in(name + ".schema.json");
  std::vector<Worded> all;
  add_words(schema, with_defaults(schema, Json::object()), Place(), all);
  return all;
}

/// True if the code does not recognize the word at `place` of `options`.
bool is_unknown(const runner::StageKind& kind, const Json& options, const Place& place) {
  const runner::Value value = runner::from_json(options);
  runner::ConfigReader reader(value, "/stage");
  const auto stage = kind.create(reader);
  return !stage && std::ranges::any_of(stage.errors(), [&](const runner::Diagnostic& error) {
    return error.code == runner::ErrorCode::kInternal &&
           error.pointer == "/stage" + place.to_string();
  });
}

/// True if the backbone in `options` is for another kind of model. All backbones share a group in
/// recipes.
bool is_of_another_model(const runner::StageKind& kind, const Json& options) {
  const runner::Value value = runner::from_json(options);
  runner::ConfigReader reader(value, "/stage");
  const auto stage = kind.create(reader);
  return !stage && stage.errors().size() == 1 &&
         stage.errors()[0].code == runner::ErrorCode::kOptionConflict &&
         stage.errors()[0].pointer == "/stage/backbone";
}

TEST(Words, EveryWordOfASchemaIsKnown) {
  std::size_t words = 0;
  for (const runner::StageKind* kind : all_kinds()) {
    for (const Worded& one : words_of_kind(std::string(kind->name))) {
      EXPECT_FALSE(is_unknown(*kind, one.options, one.place))
          << kind->name << one.place.to_string() << ": " << one.options[one.place];
      ++words;
    }
  }
  EXPECT_GT(words, 30);
}

TEST(Words, UnknownWordsAreRejected) {
  std::size_t words = 0;
  for (const runner::StageKind* kind : all_kinds()) {
    for (Worded& one : words_of_kind(std::string(kind->name))) {
      if (is_of_another_model(*kind, one.options)) continue;
      one.options[one.place] = "no_such_word";
      EXPECT_TRUE(is_unknown(*kind, one.options, one.place)) << kind->name << one.place.to_string();
      ++words;
    }
  }
  EXPECT_GT(words, 60);
}

}  // namespace
}  // namespace stages
