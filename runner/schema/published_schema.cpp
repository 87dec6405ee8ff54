#include "runner/schema/published_schema.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runner/schema/publication.h"
#include "runner/schema/schema_phrase.h"
#include "runner/text/suggest.h"

namespace runner {

using Json = nlohmann::ordered_json;

Result<Json> published_schema(const SchemaSet& schemas, std::string_view name) {
  std::vector<std::string> names = {"recipe"};
  for (const Kind& kind : schemas.kinds()) names.push_back(kind.name);
  for (const std::string& folder : schemas.sub_kind_folders()) {
    for (const std::string& kind : schemas.sub_kinds(folder)) names.push_back(folder + "/" + kind);
  }
  if (std::ranges::find(names, name) == names.end()) {
    const std::string near = did_you_mean_path(name, names);
    return Diagnostic{ErrorCode::kUnknownKind,
                      {},
                      "",
                      "unknown kind " + in_quotes(name),
                      near.empty() ? "there are " + joined(names, names.size()) : near};
  }
  Publication publication(schemas, Publication::Mappings::kWhole);
  const Kind* kind = schemas.kind(name);
  Json result = {{"$schema", "http://json-schema.org/draft-07/schema#"}};
  result.update(kind ? publication.stage(kind->file) : publication.file(std::string(name) + ".schema.json"));
  result["definitions"] = publication.take_definitions();
  return result;
}

}  // namespace runner
