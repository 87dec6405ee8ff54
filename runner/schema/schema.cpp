#include "runner/schema/schema.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>

#include <nlohmann/json.hpp>

#include "runner/schema/kind_reader.h"
#include "runner/schema/planned.h"
#include "runner/schema/schema_choices.h"
#include "runner/schema/schema_config.h"
#include "runner/schema/schema_path.h"
#include "runner/schema/schema_defaults.h"
#include "runner/schema/schema_phrase.h"
#include "runner/schema/schema_reader.h"
#include "runner/text/suggest.h"
#include "runner/schema/validator.h"

namespace runner {

struct SchemaSet::Store {
  SchemaReader schemas;
  std::vector<Kind> kinds;

  SchemaNode* at(std::string_view address) {
    const std::string full = address.find('#') == address.npos ? std::string(address) + "#" : std::string(address);
    const auto found = schemas.nodes_by_address.find(full);
    return found == schemas.nodes_by_address.end() ? nullptr : found->second;
  }
};

namespace {

constexpr std::string_view kSchemaEnding = ".schema.json";
constexpr std::string_view kCommonKeys = "common.schema.json#/definitions/stage";

Diagnostic bad(const std::string& path, const std::string& pointer, const std::string& message) {
  return {ErrorCode::kBadSchema, {}, pointer, "schemas/" + path + ": " + message, ""};
}

/// A default is what a recipe would have said, so it has to be as valid; and what is filled into it as well.
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
  if (const auto read = std::from_chars(begin, end, integer); read.ec == std::errc() && read.ptr == end) return integer;
  double real = 0;
  const auto read = std::from_chars(begin, end, real);
  if (read.ec != std::errc() || read.ptr != end || !std::isfinite(real)) return std::nullopt;
  return real;
}

/// Environment variables hold texts: those at the places of `errors` that read as numbers become numbers. Did any?
bool read_environment_numbers(Value& root, const Diagnostics& errors) {
  bool is_changed = false;
  for (const Diagnostic& error : errors) {
    auto& value = const_cast<Value&>(nearest(root, error.pointer));  // of `root`, which may be changed
    if (!value.text() || value.form != ScalarForm::kEnvironment) continue;
    const auto number = number_in(*value.text());
    if (!number) continue;
    value.data = *number;
    value.form = ScalarForm::kPlain;
    is_changed = true;
  }
  return is_changed;
}

}  // namespace

SchemaSet::SchemaSet(std::unique_ptr<Store> store) : store_(std::move(store)) {}
SchemaSet::SchemaSet(SchemaSet&&) noexcept = default;
SchemaSet& SchemaSet::operator=(SchemaSet&&) noexcept = default;
SchemaSet::~SchemaSet() = default;

Result<SchemaSet> SchemaSet::load(std::span<const SchemaFile> files) {
  auto store = std::make_unique<Store>();
  Diagnostics& errors = store->schemas.errors;
  for (const SchemaFile& file : files) {
    if (file.path.ends_with(kSchemaEnding)) store->schemas.read_file(std::string(file.path), file.text);
    else errors.push_back(bad(std::string(file.path), "", "a schema's file is named '<name>.schema.json'"));
  }
  if (!errors.empty()) return std::move(errors);
  store->schemas.connect();
  const SchemaNode* common = store->at(kCommonKeys);
  for (const auto& [path, document] : store->schemas.documents) {
    const bool is_kind = path.find('/') != path.npos;
    if (is_kind && (!document.is_object() || document.value("title", "") != title_of(path))) {
      errors.push_back(bad(path, "/title", "the title must be '" + title_of(path) + "'"));
    } else if (is_stage_kind(path)) {
      store->kinds.push_back(read_kind(path, document, errors));
      store->at(path)->common = common;
      if (!common) errors.push_back(bad(path, "", "a stage needs " + std::string(kCommonKeys)));
    }
  }
  std::ranges::sort(store->kinds, {}, &Kind::name);
  if (errors.empty()) check_defaults(store->schemas, errors);
  if (!errors.empty()) return std::move(errors);
  return SchemaSet(std::move(store));
}

Diagnostics SchemaSet::validate(Value& recipe) const { return validate(recipe, "recipe.schema.json"); }

Diagnostics SchemaSet::validate(Value& value, std::string_view file) const {
  const SchemaNode* schema = store_->at(file);
  if (!schema) return {{ErrorCode::kInternal, {}, "", "there is no schema " + in_quotes(file), ""}};
  Diagnostics errors = check(value, *schema);
  if (read_environment_numbers(value, errors)) errors = check(value, *schema);
  if (errors.empty()) fill_in_defaults(value, *schema);
  return errors;
}

Diagnostics SchemaSet::planned_uses(const Value& recipe) const {
  const SchemaNode* schema = store_->at("recipe.schema.json");
  return schema ? runner::planned_uses(recipe, *schema) : Diagnostics();
}

void SchemaSet::visit_configured(Value& recipe, const VisitConfigured& visit) const {
  const SchemaNode* schema = store_->at("recipe.schema.json");
  if (schema) runner::visit_configured(recipe, *schema, visit);
}

std::span<const Kind> SchemaSet::kinds() const { return store_->kinds; }

const Kind* SchemaSet::kind(std::string_view name) const {
  const auto found = std::ranges::find(store_->kinds, name, &Kind::name);
  return found == store_->kinds.end() ? nullptr : &*found;
}

std::string SchemaSet::nearest_kind(std::string_view name) const {
  std::vector<std::string> names;
  for (const Kind& kind : store_->kinds) names.push_back(kind.name);
  return nearest_name(name, names);
}

std::vector<std::string> SchemaSet::sub_kinds(std::string_view folder) const {
  std::vector<std::string> names;
  const std::string start = std::string(folder) + "/";
  for (const auto& [path, document] : store_->schemas.documents) {
    if (!path.starts_with(start) || path.find('/', start.size()) != path.npos) continue;
    names.push_back(path.substr(start.size(), path.size() - start.size() - kSchemaEnding.size()));
  }
  return names;
}

std::vector<std::string> SchemaSet::sub_kind_folders() const {
  std::vector<std::string> folders;
  for (const auto& [path, document] : store_->schemas.documents) {
    const std::string folder = path.substr(0, std::min(path.rfind('/'), path.size()));
    const bool is_nested = folder.find('/') != folder.npos && path.size() > folder.size();
    if (is_nested && (folders.empty() || folders.back() != folder)) folders.push_back(folder);
  }
  return folders;
}

std::optional<Value> SchemaSet::declared(const Value& recipe, std::span<const std::string> path) const {
  const SchemaNode* schema = store_->at("recipe.schema.json");
  if (!schema) return std::nullopt;
  return declared_default(*schema, recipe, path);
}

std::vector<std::string> SchemaSet::declared_keys(const Value& recipe, std::span<const std::string> path) const {
  const SchemaNode* schema = store_->at("recipe.schema.json");
  return schema ? runner::declared_keys(*schema, recipe, path) : std::vector<std::string>();
}

bool SchemaSet::may_add(const Value& recipe, std::span<const std::string> path) const {
  const SchemaNode* schema = store_->at("recipe.schema.json");
  return !schema || runner::may_add(*schema, &recipe, path);
}

KeyChoices SchemaSet::choices(const Value& recipe, std::span<const std::string> path) const {
  const SchemaNode* schema = store_->at("recipe.schema.json");
  return schema ? key_choices(*schema, recipe, path) : KeyChoices();
}

const nlohmann::ordered_json* SchemaSet::document(std::string_view kind) const {
  const Kind* found = this->kind(kind);
  const auto document =
      store_->schemas.documents.find(found ? found->file : std::string(kind) + std::string(kSchemaEnding));
  return document == store_->schemas.documents.end() ? nullptr : &document->second;
}

ResumeClass SchemaSet::resume_class(const Value& recipe, std::span<const std::string> path) const {
  const SchemaNode* schema = store_->at("recipe.schema.json");
  return schema ? runner::resume_class(*schema, recipe, path) : ResumeClass::kForce;
}

const SchemaNode* SchemaSet::node(std::string_view file) const { return store_->at(file); }

}  // namespace runner
