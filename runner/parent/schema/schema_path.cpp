#include "runner/parent/schema/schema_path.h"

#include <algorithm>
#include <cstdint>

#include "runner/parent/schema/validator.h"
#include "runner/shared/value/value.h"

namespace runner {
namespace {

const Value kNoSchema{};

/// Returns the default of a key with `schema`. `nested` is its value in the default of an enclosing
/// mapping, which takes precedence; null if there is none.
std::optional<Value> default_at(const SchemaNode& schema, const Value* nested) {
  const Value* given = nested ? nested : default_of(schema);
  if (!given) return Value{};
  Value value = *given;
  fill_in_defaults(value, schema);
  return value;
}

std::optional<Value> follow(const SchemaNode& node, const Value* value, const Value* nested,
                            std::span<const std::string> path) {
  const SchemaNode& schema = followed(node);
  const std::string& key = path.front();
  const auto rest = path.subspan(1);
  const Value* below = value ? value->find(key) : nullptr;
  const Value* nested_below = nested ? nested->find(key) : nullptr;
  const auto enter = [&](const SchemaNode& property) {
    if (rest.empty()) return default_at(property, nested_below);
    return follow(property, below, nested_below ? nested_below : default_of(property), rest);
  };

  if (const SchemaNode* property = schema.property(key)) return enter(*property);
  const SchemaNode* common = schema.common ? schema.common->property(key) : nullptr;
  if (common) return enter(*common);
  if (schema.kinds_in) {
    const bool names_kind = value && value->find("kind");
    const SchemaNode* kind = kind_of(schema, names_kind ? *value : nested ? *nested : kNoSchema);
    if (key == "kind" && rest.empty() && !schema.default_kind.empty() && !nested_below)
      return Value{schema.default_kind, {}};
    if (kind) return follow(*kind, value, nested, path);
  }
  for (const auto* group : {&schema.all_of, &schema.any_of, &schema.one_of}) {
    for (const SchemaNode* part : *group) {
      if (auto found = follow(*part, value, nested, path)) return found;
    }
  }
  // additionalProperties allows a key without declaring it, but keys below it may be declared.
  if (!rest.empty() && below && schema.additional_properties)
    return follow(*schema.additional_properties, below, nullptr, rest);
  return std::nullopt;
}

/// Adds the names of the keys declared in the mapping at `path` below `node`.
void collect_keys(const SchemaNode& node, const Value* value, std::span<const std::string> path,
                  std::vector<std::string>& keys) {
  const SchemaNode& schema = followed(node);
  const Value* below = value && !path.empty() ? value->find(path.front()) : nullptr;
  for (const SchemaNode* part : {&schema, schema.common}) {
    if (!part) continue;
    if (path.empty()) {
      for (const NamedSchema& property : part->properties) keys.push_back(property.name);
    } else if (const SchemaNode* property = part->property(path.front())) {
      return collect_keys(*property, below, path.subspan(1), keys);
    }
  }
  if (schema.kinds_in) {
    if (const SchemaNode* kind = kind_of(schema, value ? *value : kNoSchema))
      collect_keys(*kind, value, path, keys);
  }
  for (const auto* group : {&schema.all_of, &schema.any_of, &schema.one_of}) {
    for (const SchemaNode* part : *group) collect_keys(*part, value, path, keys);
  }
  if (!path.empty() && below && schema.additional_properties) {
    collect_keys(*schema.additional_properties, below, path.subspan(1), keys);
  }
}

void collect_other_kinds(const SchemaNode& node, const Value* value,
                         std::span<const std::string> path, std::vector<std::string>& kinds) {
  const SchemaNode& schema = followed(node);
  const auto rest = path.subspan(1);
  const Value* below = value ? value->find(path.front()) : nullptr;
  if (const SchemaNode* property = schema.property(path.front())) {
    if (!rest.empty()) collect_other_kinds(*property, below, rest, kinds);
    return;
  }
  if (const SchemaNode* own =
          schema.kinds_in ? kind_of(schema, value ? *value : kNoSchema) : nullptr) {
    if (own->property(path.front()) || !rest.empty())
      return collect_other_kinds(*own, value, path, kinds);
    for (const KindSchema& kind : schema.kinds) {
      const SchemaNode& other = kind.schema();
      const bool is_alike = *schema.kinds_in != "*" || other.file.substr(0, other.file.find('/')) ==
                                                           own->file.substr(0, own->file.find('/'));
      if (is_alike && other.property(path.front())) kinds.push_back(kind.name);
    }
    return;
  }
  for (const auto* group : {&schema.all_of, &schema.any_of, &schema.one_of}) {
    for (const SchemaNode* part : *group) collect_other_kinds(*part, value, path, kinds);
  }
  if (!rest.empty() && below && schema.additional_properties)
    collect_other_kinds(*schema.additional_properties, below, rest, kinds);
}

/// Returns the resume class of the node, or of the node it refers to; `above` if it has none.
ResumeClass class_of(const SchemaNode& node, ResumeClass above) {
  for (const SchemaNode* at = &node; at; at = at->target) {
    if (at->resume) return *at->resume;
  }
  return above;
}

ResumeClass follow_resume(const SchemaNode& node, const Value* value,
                          std::span<const std::string> path, ResumeClass above) {
  const ResumeClass here = class_of(node, above);
  if (path.empty()) return here;
  const SchemaNode& schema = followed(node);
  const std::string& key = path.front();
  const auto rest = path.subspan(1);
  const Value* below = value ? value->find(key) : nullptr;
  if (const SchemaNode* property = schema.property(key))
    return follow_resume(*property, below, rest, here);
  if (schema.common) {
    if (const SchemaNode* property = schema.common->property(key))
      return follow_resume(*property, below, rest, here);
  }
  if (schema.kinds_in && value) {
    if (const SchemaNode* kind = kind_of(schema, *value))
      return follow_resume(*kind, value, path, here);
  }
  for (const auto* group : {&schema.all_of, &schema.any_of, &schema.one_of}) {
    for (const SchemaNode* part : *group) {
      if (followed(*part).property(key)) return follow_resume(*part, value, path, here);
    }
  }
  return schema.additional_properties
             ? follow_resume(*schema.additional_properties, below, rest, here)
             : here;
}

}  // namespace

std::vector<std::string> declared_keys(const SchemaNode& schema, const Value& value,
                                       std::span<const std::string> path) {
  std::vector<std::string> keys;
  collect_keys(schema, &value, path, keys);
  return keys;
}

std::optional<Value> declared_default(const SchemaNode& schema, const Value& value,
                                      std::span<const std::string> path) {
  if (path.empty()) return std::nullopt;
  return follow(schema, &value, nullptr, path);
}

std::vector<std::string> other_kinds_with(const SchemaNode& schema, const Value& value,
                                          std::span<const std::string> path) {
  std::vector<std::string> kinds;
  if (!path.empty()) collect_other_kinds(schema, &value, path, kinds);
  return kinds;
}

ResumeClass resume_class(const SchemaNode& schema, const Value& value,
                         std::span<const std::string> path) {
  return follow_resume(schema, &value, path, ResumeClass::kForce);
}

bool may_add(const SchemaNode& node, const Value* value, std::span<const std::string> path) {
  const SchemaNode& schema = followed(node);
  if (schema.verdict) return *schema.verdict;
  if (schema.kinds_in) {
    const SchemaNode* kind = path.empty() || !value ? nullptr : kind_of(schema, *value);
    const SchemaNode* common = kind ? kind->common : nullptr;
    return kind && (may_add(*kind, value, path) || (common && common->property(path.front())));
  }
  const auto passes = [&](const SchemaNode* part) { return may_add(*part, value, path); };
  const bool is_among = (schema.any_of.empty() || std::ranges::any_of(schema.any_of, passes)) &&
                        (schema.one_of.empty() || std::ranges::any_of(schema.one_of, passes));
  if (!is_among || !std::ranges::all_of(schema.all_of, passes)) return false;
  if (path.empty()) return schema.types == 0 || (schema.types & ~(kObjectType | kArrayType)) != 0;
  if (schema.types != 0 && !(schema.types & kObjectType)) return false;
  const auto rest = path.subspan(1);
  const Value* below = value ? value->find(path.front()) : nullptr;
  if (const SchemaNode* property = schema.property(path.front()))
    return may_add(*property, below, rest);
  for (const PatternSchema& one : schema.pattern_properties) {
    if (one.pattern.matches(path.front())) return may_add(*one.schema, below, rest);
  }
  return !schema.additional_properties || may_add(*schema.additional_properties, below, rest);
}

namespace {

void place(Value& value, const Location& where) {
  value.where = where;
  value.is_default = true;
  if (auto* list = value.list()) {
    for (Value& item : *list) place(item, where);
  }
  if (auto* map = value.map()) {
    for (Entry& entry : *map) {
      entry.key_where = where;
      place(entry.value, where);
    }
  }
}

/// Fills in defaults. Which alternative matches depends on the value as written, so a default from
/// one alternative cannot make another one match.
class Filling {
 public:
  void fill(const Value& written, Value& filled, const SchemaNode& schema, bool items) {
    if (schema.target) return fill(written, filled, *schema.target, items);
    if (written.map()) {
      const bool inside = items || has_items(schema, written);
      fill_kind(written, filled, schema, inside);
      fill_mapping(written, filled, schema, inside);
      if (schema.common) fill_mapping(written, filled, *schema.common, inside);
    }
    if (const auto* list = written.list()) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        const SchemaNode* item =
            i < schema.first_items.size() ? schema.first_items[i] : schema.items;
        if (item) fill((*list)[i], (*filled.list())[i], *item, items);
      }
    }
    for (const SchemaNode* part : schema.all_of) fill(written, filled, *part, items);
    for (const auto* group : {&schema.any_of, &schema.one_of}) {
      const auto fits = [&](const SchemaNode* part) {
        return check(written, *part, items).empty();
      };
      const auto found = std::ranges::find_if(*group, fits);
      if (found != group->end()) fill(written, filled, **found, items);
    }
    make_integer(filled, schema);
  }

 private:
  void fill_kind(const Value& written, Value& filled, const SchemaNode& schema, bool items) {
    if (!schema.kinds_in) return;
    if (!written.find("kind") && !filled.find("kind")) {
      Value kind{schema.default_kind, written.where};
      kind.is_default = true;
      filled.map()->push_back({"kind", written.where, std::move(kind)});
    }
    if (const SchemaNode* kind = kind_of(schema, written)) fill(written, filled, *kind, items);
  }

  void fill_mapping(const Value& written, Value& filled, const SchemaNode& schema, bool items) {
    for (const NamedSchema& property : schema.properties) {
      if (written.find(property.name) || filled.find(property.name)) continue;
      const Value* given = default_of(*property.schema);
      if (!given) continue;
      Value added = *given;
      place(added, place_of(written));
      fill(*given, added, *property.schema, items);
      place(added, place_of(written));
      filled.map()->push_back({property.name, place_of(written), std::move(added)});
    }
    for (const Entry& entry : *written.map()) {
      Value* const found = filled.find(entry.key);
      if (!found) continue;  // removed by another schema of this mapping
      Value& value = *found;
      bool is_known = schema.common && schema.common->property(entry.key);
      if (const SchemaNode* property = schema.property(entry.key)) {
        is_known = true;
        fill(entry.value, value, *property, items);
      }
      for (const PatternSchema& property : schema.pattern_properties) {
        if (!property.pattern.matches(entry.key)) continue;
        is_known = true;
        fill(entry.value, value, *property.schema, items);
      }
      if (!is_known && schema.additional_properties)
        fill(entry.value, value, *schema.additional_properties, items);
    }
  }

  static void make_integer(Value& filled, const SchemaNode& schema) {
    const auto* number = std::get_if<double>(&filled.data);
    if (!number) return;
    if (schema.allowed) {
      const auto found = std::ranges::find_if(
          *schema.allowed, [&](const Value& one) { return same_data(one, filled); });
      if (found != schema.allowed->end()) filled.data = found->data;
    } else if ((schema.types & kIntegerType) && !(schema.types & kNumberType)) {
      filled.data = static_cast<std::int64_t>(*number);
    }
  }
};

}  // namespace

void fill_in_defaults(Value& value, const SchemaNode& schema, bool items) {
  const Value written = value;
  Filling().fill(written, value, schema, items);
}

}  // namespace runner
