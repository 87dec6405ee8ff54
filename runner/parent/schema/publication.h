#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/schema/schema.h"

namespace runner {

/// Builds a single plain draft-07 document from our schemas. The schema in one file may refer to
/// others, which are collected in `definitions` under names without slashes. Our own keywords are
/// replaced or omitted.
class Publication {
 public:
  using Json = nlohmann::ordered_json;

  /// kWhole describes a whole document, in which a mapping names its kind or has the default kind.
  /// kAsWritten describes a file before composition: the kind may be named in another file, so a
  /// mapping without one must match one of the kinds.
  enum class Mappings { kWhole, kAsWritten };

  Publication(const SchemaSet& schemas, Mappings mappings)
      : schemas_(schemas), mappings_(mappings) {}

  /// Returns the schema of the file at a path below schemas/, such as
  /// "train/optimizer/adam.schema.json".
  Json file(const std::string& path);

  /// Returns a stage's options together with the keys common to all stages.
  Json stage(const std::string& path);

  /// Returns the schema for a mapping with a `kind` from `folder` ("*": any stage; "train": that
  /// family). `of_file` makes the definition of one kind from the path of its file; by default that
  /// is stage() or file().
  Json choice(const std::string& folder, const std::string& preferred,
              const std::function<Json(const std::string& path)>& of_file = {});

  Json take_definitions() { return std::move(definitions_); }

 private:
  Json published(const Json& schema, const std::string& file);
  bool holds_rules_alone(const Json& part, const std::string& file) const;
  std::string local(const std::string& reference, const std::string& file);
  const Json& document(const std::string& path) const;
  std::vector<std::string> files_in(const std::string& folder) const;
  void define(const std::string& name, const std::function<Json()>& make);

  const SchemaSet& schemas_;
  Mappings mappings_;
  Json definitions_ = Json::object();
};

}  // namespace runner
