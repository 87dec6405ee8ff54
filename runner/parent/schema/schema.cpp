#include "runner/parent/schema/schema.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "runner/parent/schema/kind_reader.h"
#include "runner/parent/schema/published_schema.h"
#include "runner/parent/schema/schema_node.h"
#include "runner/parent/schema/schema_path.h"
#include "runner/parent/schema/schema_reader.h"
#include "runner/parent/schema/validator.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

constexpr std::string_view kSchemaEnding = ".schema.json";
constexpr std::string_view kRecipeFile = "recipe.schema.json";

Diagnostic bad(std::string_view path, const std::string& pointer, const std::string& message) {
  return {ErrorCode::kBadSchema, {}, pointer, "schemas/" + std::string(path) + ": " + message, ""};
}

/// Checks all defaults. A default stands for a value that a recipe could contain, so it must be
/// just as valid, even once nested defaults are filled in.
void check_defaults(const SchemaReader& schemas, Diagnostics& errors) {
  for (const SchemaNode& node : schemas.nodes) {
    if (!node.default_value) continue;
    Value value = *node.default_value;
    Diagnostics wrong = check(value, node);
    if (wrong.empty()) {
      fill_in_defaults(value, node);
      wrong = check(value, node);
    }
    for (const Diagnostic& error : wrong) {
      errors.push_back(bad(node.file, pointer_to(node.pointer, "default") + error.pointer,
                           "the default is not valid: " + error.message));
    }
  }
}

std::optional<decltype(Value::data)> number_in(const std::string& text) {
  const char *const begin = text.data(), *const end = begin + text.size();
  std::int64_t integer = 0;
  if (const auto read = std::from_chars(begin, end, integer);
      read.ec == std::errc() && read.ptr == end)
    return integer;
  double real = 0;
  const auto read = std::from_chars(begin, end, real);
  if (read.ec != std::errc() || read.ptr != end || !std::isfinite(real)) return std::nullopt;
  return real;
}

/// Values from environment variables are strings. Converts the strings at the locations of `errors`
/// to numbers if they parse as numbers. Returns true if any of them was converted.
bool read_environment_numbers(Value& root, const Diagnostics& errors) {
  bool is_changed = false;
  for (const Diagnostic& error : errors) {
    auto& value = const_cast<Value&>(nearest(root, error.pointer));  // a value in `root`, which may
                                                                     // be modified
    if (!value.reveal() || value.form != ScalarForm::kEnvironment) continue;
    const auto number = number_in(*value.reveal());
    if (!number) continue;
    value.data = *number;
    value.form = ScalarForm::kPlain;
    is_changed = true;
  }
  return is_changed;
}

}  // namespace

struct SchemaSet::Store {
  SchemaReader schemas;
  std::map<std::string, Kind, std::less<>> kinds_by_name;  // the kinds requested so far
  std::vector<Kind> kinds;                                 // all, once requested

  /// Returns the kind of stage declared by a file; errors are added to the reader's.
  Kind& kind_in(std::string_view path) {
    const std::string name = title_of(std::string(path));
    const auto found = kinds_by_name.find(name);
    if (found != kinds_by_name.end()) return found->second;
    return kinds_by_name
        .emplace(name, read_kind(std::string(path), *schemas.document(path), schemas.errors))
        .first->second;
  }
};

SchemaSet::SchemaSet(std::unique_ptr<Store> store) : store_(std::move(store)) {}
SchemaSet::SchemaSet(SchemaSet&&) noexcept = default;
SchemaSet& SchemaSet::operator=(SchemaSet&&) noexcept = default;
SchemaSet::~SchemaSet() = default;

SchemaSet SchemaSet::open(std::span<const SchemaFile> files) {
  auto store = std::make_unique<Store>();
  for (const SchemaFile& file : files) store->schemas.add_file(file);
  return SchemaSet(std::move(store));
}

Result<SchemaSet> SchemaSet::load(std::span<const SchemaFile> files) {
  auto store = std::make_unique<Store>();
  Diagnostics& errors = store->schemas.errors;
  for (const SchemaFile& file : files) {
    if (file.path.ends_with(kSchemaEnding)) store->schemas.add_file(file);
    else errors.push_back(bad(file.path, "", "a schema file must be named '<name>.schema.json'"));
  }
  store->schemas.read_all();
  if (!errors.empty()) return std::move(errors);
  for (const std::string_view view : store->schemas.paths()) {
    const std::string path(view);
    const nlohmann::ordered_json& document = *store->schemas.document(path);
    const bool is_kind = path.find('/') != path.npos;
    if (is_kind && (!document.is_object() || document.value("title", "") != title_of(path))) {
      errors.push_back(bad(path, "/title", "the title must be '" + title_of(path) + "'"));
    } else if (is_stage_kind(path)) {
      store->kind_in(path);
      if (!store->schemas.at(path)->common)
        errors.push_back(bad(path, "", "a stage needs common.schema.json#/definitions/stage"));
    }
  }
  if (errors.empty()) check_defaults(store->schemas, errors);
  const SchemaReader& reader = store->schemas;
  SchemaSet result(std::move(store));
  const std::vector<OtherName> names = result.other_names();
  for (const SchemaNode& node : reader.nodes) {
    for (const std::string& name : node.other_names) {
      if (std::ranges::find(names, name, &OtherName::other) == names.end())
        errors.push_back(bad(node.file, pointer_to(node.pointer, "x-other-names"),
                             "only keys of a recipe's own mappings can have other names"));
    }
  }
  if (!errors.empty()) return std::move(errors);
  return result;
}

Diagnostics SchemaSet::validate(Value& recipe) const { return validate(recipe, kRecipeFile); }

Diagnostics SchemaSet::validate(Value& value, std::string_view file) const {
  const SchemaNode* schema = store_->schemas.at(file);
  if (!schema) return {{ErrorCode::kInternal, {}, "", "there is no schema " + in_quotes(file), ""}};
  Diagnostics errors = check(value, *schema);
  if (read_environment_numbers(value, errors)) errors = check(value, *schema);
  if (errors.empty()) fill_in_defaults(value, *schema);
  return errors;
}

void SchemaSet::visit_configured(Value& recipe, const VisitConfigured& visit) const {
  const SchemaNode* schema = store_->schemas.at(kRecipeFile);
  if (schema) runner::visit_configured(recipe, *schema, visit);
}

std::span<const Kind> SchemaSet::kinds() const {
  if (store_->kinds.empty()) {
    for (const std::string_view path : store_->schemas.paths()) {
      if (is_stage_kind(path)) store_->kinds.push_back(store_->kind_in(path));
    }
    std::ranges::sort(store_->kinds, {}, &Kind::name);
  }
  return store_->kinds;
}

const Kind* SchemaSet::kind(std::string_view name) const {
  std::string path(name);
  if (std::ranges::count(path, '.') != 1 || path.find('/') != path.npos) return nullptr;
  std::ranges::replace(path, '.', '/');
  path += kSchemaEnding;
  return store_->schemas.document(path) ? &store_->kind_in(path) : nullptr;
}

std::string SchemaSet::nearest_kind(std::string_view name) const {
  std::vector<std::string> names;
  for (const std::string_view path : store_->schemas.paths()) {
    if (is_stage_kind(path)) names.push_back(title_of(std::string(path)));
  }
  return nearest_name(name, names);
}

std::vector<std::string> SchemaSet::sub_kinds(std::string_view folder) const {
  std::vector<std::string> names;
  const std::string start = std::string(folder) + "/";
  for (const std::string_view path : store_->schemas.paths()) {
    if (!path.starts_with(start) || path.find('/', start.size()) != path.npos) continue;
    names.emplace_back(
        path.substr(start.size(), path.size() - start.size() - kSchemaEnding.size()));
  }
  return names;
}

std::vector<std::string> SchemaSet::sub_kind_folders() const {
  std::vector<std::string> folders;
  for (const std::string_view path : store_->schemas.paths()) {
    const std::string folder(path.substr(0, std::min(path.rfind('/'), path.size())));
    const bool is_nested = folder.find('/') != folder.npos && path.size() > folder.size();
    if (is_nested && (folders.empty() || folders.back() != folder)) folders.push_back(folder);
  }
  return folders;
}

std::optional<Value> SchemaSet::declared(const Value& recipe, Path path) const {
  const SchemaNode* schema = store_->schemas.at(kRecipeFile);
  if (!schema) return std::nullopt;
  return declared_default(*schema, recipe, path);
}

std::vector<std::string> SchemaSet::declared_keys(const Value& recipe, Path path) const {
  const SchemaNode* schema = store_->schemas.at(kRecipeFile);
  return schema ? runner::declared_keys(*schema, recipe, path) : std::vector<std::string>();
}

bool SchemaSet::may_add(const Value& recipe, Path path) const {
  const SchemaNode* schema = store_->schemas.at(kRecipeFile);
  return !schema || runner::may_add(*schema, &recipe, path);
}

std::vector<std::string> SchemaSet::other_kinds(const Value& recipe, Path path) const {
  const SchemaNode* schema = store_->schemas.at(kRecipeFile);
  return schema ? other_kinds_with(*schema, recipe, path) : std::vector<std::string>();
}

std::vector<OtherName> SchemaSet::other_names() const {
  std::vector<OtherName> names;
  const SchemaNode* schema = store_->schemas.at(kRecipeFile);
  if (!schema) return names;
  for (const NamedSchema& mapping : schema->properties) {
    for (const NamedSchema& key : followed(*mapping.schema).properties) {
      for (const std::string& other : key.schema->other_names)
        names.push_back({mapping.name, other, key.name});
    }
  }
  return names;
}

KeyChoices SchemaSet::choices(const Value& recipe, Path path) const {
  const SchemaNode* schema = store_->schemas.at(kRecipeFile);
  return schema ? key_choices(*schema, recipe, path) : KeyChoices();
}

const nlohmann::ordered_json* SchemaSet::document(std::string_view kind) const {
  const Kind* found = this->kind(kind);
  return store_->schemas.document(found ? found->file
                                        : std::string(kind) + std::string(kSchemaEnding));
}

ResumeClass SchemaSet::resume_class(const Value& recipe, Path path) const {
  const SchemaNode* schema = store_->schemas.at(kRecipeFile);
  return schema ? runner::resume_class(*schema, recipe, path) : ResumeClass::kForce;
}

const SchemaNode* SchemaSet::node(std::string_view file) const { return store_->schemas.at(file); }

namespace {

void visit_below(Value& value, const SchemaNode& node, const std::string& pointer,
                 const VisitConfigured& visit) {
  const SchemaNode& schema = followed(node);
  if (!value.map()) return;
  if (schema.config) visit(value, *schema.config, pointer);
  if (schema.kinds_in) {
    if (const SchemaNode* kind = kind_of(schema, value)) visit_below(value, *kind, pointer, visit);
  }
  for (Entry& entry : *value.map()) {
    const SchemaNode* property = schema.property(entry.key);
    if (!property) property = schema.additional_properties;
    if (property) visit_below(entry.value, *property, pointer_to(pointer, entry.key), visit);
  }
}

}  // namespace

void visit_configured(Value& value, const SchemaNode& schema, const VisitConfigured& visit) {
  visit_below(value, schema, "", visit);
}

}  // namespace runner
