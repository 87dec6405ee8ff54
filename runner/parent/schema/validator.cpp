#include "runner/parent/schema/validator.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "runner/parent/keys/tracking_service.h"
#include "runner/parent/schema/published_schema.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

constexpr int kDeepestInstance = 100;  // maximum nesting of values; YAML stops at 64

/// Sorts by source text, in order of appearance, then by line and column. Errors without a location
/// come last.
void sort_as_found(Diagnostics& errors) {
  std::vector<const SourceText*> sources;
  for (const Diagnostic& error : errors) {
    if (!std::ranges::count(sources, error.where.source)) sources.push_back(error.where.source);
  }
  std::ranges::stable_sort(errors, {}, [&](const Diagnostic& error) {
    const bool placed = error.where.source != nullptr;
    return std::tuple(!placed, std::ranges::find(sources, error.where.source) - sources.begin(),
                      error.where.line, error.where.column);
  });
}

/// Returns the alternatives that expect the type of `value`, except those that list their allowed
/// values.
std::vector<const SchemaNode*> of_same_type(const std::vector<const SchemaNode*>& alternatives,
                                            const Value& value) {
  std::vector<const SchemaNode*> result;
  for (const SchemaNode* part : alternatives) {
    const SchemaNode& node = followed(*part);
    if (!node.allowed && (node.types & types_of(value))) result.push_back(part);
  }
  return result;
}

void collect_texts(const SchemaNode& schema, std::vector<std::string>& texts) {
  const SchemaNode& node = followed(schema);
  std::ranges::move(allowed_texts(node), std::back_inserter(texts));
  for (const auto* group : {&node.any_of, &node.one_of}) {
    for (const SchemaNode* part : *group) collect_texts(*part, texts);
  }
}

}  // namespace

Diagnostics check(const Value& value, const SchemaNode& schema, bool items) {
  Diagnostics errors;
  ValidatorPlace root;
  root.items = items;
  ValidatorPass(errors).check(value, schema, root);
  sort_as_found(errors);
  return errors;
}

bool names_item(const Value& value) {
  return value.reveal() && value.reveal()->find("${item.") != std::string::npos;
}

bool has_items(const SchemaNode& schema, const Value& mapping) {
  return schema.common && mapping.find("foreach");
}

std::string ValidatorPlace::pointer() const {
  if (!above) return "";
  return pointer_to(above->pointer(), index ? std::to_string(*index) : std::string(key));
}

ValidatorPlace ValidatorPlace::below(const Entry& entry) const {
  return {this, entry.key, std::nullopt, &entry.key_where, items, depth + 1};
}

ValidatorPlace ValidatorPlace::below(std::size_t at) const {
  return {this, {}, at, nullptr, items, depth + 1};
}

void ValidatorPass::fail(ErrorCode code, const Location& where, std::string pointer,
                         std::string message, std::string help) {
  errors_.push_back({code, where, std::move(pointer), std::move(message), std::move(help)});
}

void ValidatorPass::check(const Value& value, const SchemaNode& schema, const ValidatorPlace& place,
                          std::string_view unit) {
  if (place.depth > kDeepestInstance)
    return fail(ErrorCode::kNestingTooDeep, value.where, place.pointer(), "nested too deeply");
  if (place.items && names_item(value)) return;
  if (!schema.unit.empty()) unit = schema.unit;
  if (schema.target) return check(value, *schema.target, place, unit);
  const bool is_property = !place.key.empty();
  if (schema.verdict == false) {
    return fail(
        ErrorCode::kForbidden, place.key_where ? *place.key_where : value.where, place.pointer(),
        (is_property ? "key " + in_quotes(place.key) : describe(value)) + " is not allowed here");
  }
  if (!check_allowed(value, schema, place) || !check_type(value, schema, place)) return;
  if (types_of(value) & kNumberType) check_number(value, schema, place, unit);
  if (value.text()) check_text(value, schema, place);
  if (value.list()) check_list(value, schema, place, unit);
  if (value.map()) {
    ValidatorPlace inside = place;
    inside.items = place.items || has_items(schema, value);
    check_mapping(value, schema, inside);
  }
  check_combinations(value, schema, place, unit);
  if (schema.kinds_in) check_kind(value, schema, place);
}

Diagnostics ValidatorPass::verdict(const Value& value, const SchemaNode& schema,
                                   const ValidatorPlace& place, std::string_view unit) {
  Diagnostics errors;
  ValidatorPass(errors).check(value, schema, place, unit);
  return errors;
}

void ValidatorPass::check_combinations(const Value& value, const SchemaNode& schema,
                                       const ValidatorPlace& place, std::string_view unit) {
  const auto passes = [&](const SchemaNode* part) {
    return verdict(value, *part, place, unit).empty();
  };
  for (const SchemaNode* part : schema.all_of) check(value, *part, place, unit);
  if (!schema.any_of.empty() && std::ranges::none_of(schema.any_of, passes))
    no_alternative(value, schema.any_of, place, unit);
  if (!schema.one_of.empty()) {
    const auto passed = std::ranges::count_if(schema.one_of, passes);
    if (passed == 0) no_alternative(value, schema.one_of, place, unit);
    if (passed > 1) {
      fail(ErrorCode::kNoAlternative, value.where, place.pointer(),
           describe(value) + " matches several of the allowed forms", description_of(schema));
    }
  }
  if (schema.not_this && passes(schema.not_this)) {
    if (value.map()) {
      fail(ErrorCode::kOptionConflict, value.where, place.pointer(),
           "these options cannot be used together", description_of(schema));
    } else {
      fail(ErrorCode::kForbidden, value.where, place.pointer(),
           describe(value) + " is not allowed here", description_of(schema));
    }
  }
}

namespace {

/// Says what a mapping contains, if one of the alternatives is a mapping with known keys.
std::string keys_of_mapping(const std::vector<const SchemaNode*>& alternatives) {
  for (const SchemaNode* alternative : alternatives) {
    const SchemaNode& part = followed(*alternative);
    const auto keys = known_keys(part);
    if (keys.empty()) continue;
    return "write a mapping with these keys: " + joined(keys, 20) +
           (part.required.empty() ? "; {} uses their default values" : "");
  }
  return "";
}

}  // namespace

void ValidatorPass::no_alternative(const Value& value,
                                   const std::vector<const SchemaNode*>& alternatives,
                                   const ValidatorPlace& place, std::string_view unit) {
  const auto near = of_same_type(alternatives, value);
  if (near.size() == 1) return check(value, *near.front(), place, unit);
  std::vector<std::string> phrases, texts;
  for (const SchemaNode* part : alternatives) {
    const std::string phrase = expected(*part, unit);
    if (!std::ranges::count(phrases, phrase)) phrases.push_back(phrase);
    collect_texts(*part, texts);
  }
  std::string help =
      value.text() && value.secret_as.empty() ? did_you_mean(*value.text(), texts) : "";
  for (const SchemaNode* part : alternatives) {
    if (help.empty()) help = part->description;
  }
  if (help.empty()) help = keys_of_mapping(alternatives);
  std::string wanted;
  for (std::size_t i = 0; i < phrases.size(); ++i) {
    wanted += (i == 0 ? "" : i + 1 < phrases.size() ? ", " : ", or ") + phrases[i];
  }
  fail(ErrorCode::kNoAlternative, value.where, place.pointer(),
       "expected " + wanted + "; got " + describe(value), help);
}

namespace {

std::vector<std::string> kind_names(const SchemaNode& schema, std::string_view prefix = "") {
  std::vector<std::string> names;
  for (const KindSchema& kind : schema.kinds) {
    if (kind.name.starts_with(prefix)) names.push_back(kind.name);
  }
  return names;
}

/// Lists the kinds of the family that `word` names or begins with, "train" or "train.supervisd", or
/// all kinds if there is no such family.
std::string listed_kinds(const SchemaNode& schema, std::string_view word) {
  auto names = kind_names(schema, std::string(word.substr(0, word.find('.'))) + ".");
  if (names.empty()) names = kind_names(schema);
  return names.empty() ? "no kinds are known" : "kinds: " + joined(names, 20);
}

}  // namespace

/// True if `entry`, a top-level entry of a recipe with a key that is not reserved, is a stage.
/// Otherwise reports an error.
bool ValidatorPass::check_top_level(const Entry& entry, const SchemaNode& recipe,
                                    const ValidatorPlace& place) {
  if (entry.value.map() && entry.value.find("kind")) return true;
  const SchemaNode& stages = followed(*recipe.additional_properties);
  const auto reserved = known_keys(recipe);
  const std::string service = instead_of_tracking_service(entry.key);
  const std::string near = service.empty() ? did_you_mean(entry.key, reserved) : service;
  const std::string rule = "every other top-level mapping is a stage with a 'kind'";
  const std::string pointer = place.below(entry).pointer();
  const bool is_family = !kind_names(stages, entry.key + ".").empty();
  // Composition has replaced the mapping of a group or a stage with another value.
  const bool is_elsewhere = entry.value.where.source != entry.key_where.source;
  if (!entry.value.map() && (is_family || (is_elsewhere && near.empty()))) {
    fail(ErrorCode::kWrongType, entry.value.where, pointer,
         "expected a mapping, got " + found_phrase(entry.value),
         entry.value.is_null() ? "to leave the stage out, write ~" + entry.key +
                                     " on the command line, or leave it out of the defaults"
                               : "a stage is a mapping with a 'kind'");
    return false;
  }
  if (!entry.value.map()) {
    fail(ErrorCode::kUnknownKey, entry.key_where, pointer, "unknown key " + in_quotes(entry.key),
         near.empty() ? "reserved keys: " + joined(reserved, 20) + "; " + rule : near);
    return false;
  }
  if (!service.empty()) {
    fail(ErrorCode::kUnknownKey, entry.key_where, pointer, "unknown key " + in_quotes(entry.key),
         service);
    return false;
  }
  fail(ErrorCode::kMissingKey, entry.value.where, pointer_to(pointer, "kind"),
       "missing key 'kind' in the stage " + in_quotes(entry.key),
       near.empty() || is_family ? listed_kinds(stages, entry.key) : near + " " + rule);
  return false;
}

void ValidatorPass::check_kind(const Value& value, const SchemaNode& schema,
                               const ValidatorPlace& place) {
  if (!value.map()) {
    fail(ErrorCode::kWrongType, value.where, place.pointer(),
         "expected a mapping, got " + found_phrase(value));
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
    fail(ErrorCode::kMissingKey, value.where, pointer, "missing key 'kind'",
         listed_kinds(schema, place.key));
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
