#include "runner/parent/schema/schema_defaults.h"

#include <algorithm>
#include <cstdint>

#include "runner/parent/schema/validator.h"
#include "runner/shared/value/place.h"

namespace runner {
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

/// The Value as written decides which alternative fits, so that no default of one makes another fit.
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
        const SchemaNode* item = i < schema.first_items.size() ? schema.first_items[i] : schema.items;
        if (item) fill((*list)[i], (*filled.list())[i], *item, items);
      }
    }
    for (const SchemaNode* part : schema.all_of) fill(written, filled, *part, items);
    for (const auto* group : {&schema.any_of, &schema.one_of}) {
      const auto fits = [&](const SchemaNode* part) { return check(written, *part, items).empty(); };
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
      if (!found) continue;  // taken out by another schema of this mapping
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
      if (!is_known && schema.additional_properties) fill(entry.value, value, *schema.additional_properties, items);
    }
  }

  static void make_integer(Value& filled, const SchemaNode& schema) {
    const auto* number = std::get_if<double>(&filled.data);
    if (!number) return;
    if (schema.allowed) {
      const auto found =
          std::ranges::find_if(*schema.allowed, [&](const Value& one) { return same_data(one, filled); });
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
