#include <algorithm>
#include <string>
#include <utility>

#include "runner/parent/schema/schema_phrase.h"
#include "runner/shared/text/suggest.h"
#include "runner/parent/schema/validator.h"
#include "runner/parent/schema/validator_pass.h"

namespace runner {
namespace {

std::vector<std::string> kind_names(const SchemaNode& schema, std::string_view prefix = "") {
  std::vector<std::string> names;
  for (const KindSchema& kind : schema.kinds) {
    if (kind.name.starts_with(prefix)) names.push_back(kind.name);
  }
  return names;
}

/// The kinds of the family that `word` names or begins with, "train" or "train.supervisd"; all when there is none such.
std::string listed_kinds(const SchemaNode& schema, std::string_view word) {
  auto names = kind_names(schema, std::string(word.substr(0, word.find('.'))) + ".");
  if (names.empty()) names = kind_names(schema);
  return names.empty() ? "no kinds are known" : "kinds: " + joined(names, 20);
}

}  // namespace

/// Is this entry of a recipe, whose key is not reserved, meant as a stage?
bool ValidatorPass::check_top_level(const Entry& entry, const SchemaNode& recipe, const ValidatorPlace& place) {
  if (entry.value.map() && entry.value.find("kind")) return true;
  const SchemaNode& stages = followed(*recipe.additional_properties);
  const auto reserved = known_keys(recipe);
  const std::string near = did_you_mean(entry.key, reserved);
  const std::string rule = "every other top-level mapping is a stage and has a 'kind'";
  const std::string pointer = place.below(entry).pointer();
  if (!entry.value.map()) {
    fail(ErrorCode::kUnknownKey, entry.key_where, pointer, "unknown key " + in_quotes(entry.key),
         near.empty() ? "reserved keys: " + joined(reserved, 20) + "; " + rule : near);
    return false;
  }
  const bool is_family = !kind_names(stages, entry.key + ".").empty();
  fail(ErrorCode::kMissingKey, entry.value.where, pointer_to(pointer, "kind"),
       "missing key 'kind' in the stage " + in_quotes(entry.key),
       near.empty() || is_family ? listed_kinds(stages, entry.key) : near + " " + rule);
  return false;
}

void ValidatorPass::check_kind(const Value& value, const SchemaNode& schema, const ValidatorPlace& place) {
  if (!value.map()) {
    fail(ErrorCode::kWrongType, value.where, place.pointer(), "expected a mapping, got " + found_phrase(value));
    return;
  }
  const Value* kind = value.find("kind");
  if (kind && place.items && names_item(*kind)) return;
  if (const SchemaNode* found = kind_of(schema, value)) {
    const SchemaNode* const around = std::exchange(chosen_, &schema);
    check(value, *found, place);
    chosen_ = around;
    return;
  }
  const std::string pointer = pointer_to(place.pointer(), "kind");
  if (!kind) {
    fail(ErrorCode::kMissingKey, value.where, pointer, "missing key 'kind'", listed_kinds(schema, place.key));
  } else if (!kind->text()) {
    fail(ErrorCode::kWrongType, kind->where, pointer, "expected a kind, got " + found_phrase(*kind),
         listed_kinds(schema, place.key));
  } else {
    const std::string near = did_you_mean(*kind->text(), kind_names(schema));
    const std::string listed = listed_kinds(schema, *kind->text());
    fail(ErrorCode::kUnknownKind, kind->where, pointer,
         "unknown kind " + (kind->secret_as.empty() ? in_quotes(*kind->text()) : kind->secret_as),
         near.empty() ? listed : near + " " + listed);
  }
}

}  // namespace runner
