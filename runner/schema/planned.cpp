#include "runner/schema/planned.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runner/schema/schema_phrase.h"
#include "runner/schema/validator.h"

namespace runner {
namespace {

/// Where the walk stands: the entry's key, if any, and what leads there.
struct Place {
  std::string key;
  Location where;  ///< of the key; of the value where there is none
  std::string pointer;
  bool items = false;  ///< inside a stage with foreach

  Place below(const Entry& entry) const { return {entry.key, entry.key_where, pointer_to(pointer, entry.key), items}; }
};

class Walk {
 public:
  void visit(const Value& value, const SchemaNode& node, const Place& place) {
    if (is_planned(node)) return report(value, node, place);
    const SchemaNode& schema = followed(node);
    if (value.map()) visit_mapping(value, schema, place);
    if (const auto* list = value.list()) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        const SchemaNode* item = i < schema.first_items.size() ? schema.first_items[i] : schema.items;
        const Location& where = (*list)[i].where;
        if (item) visit((*list)[i], *item, {"", where, pointer_to(place.pointer, std::to_string(i)), place.items});
      }
    }
    for (const SchemaNode* part : schema.all_of) visit(value, *part, place);
    for (const auto* group : {&schema.any_of, &schema.one_of}) visit_alternative(value, *group, place);
  }

  Diagnostics uses;

 private:
  void visit_mapping(const Value& value, const SchemaNode& schema, Place place) {
    place.items = place.items || has_items(schema, value);
    if (schema.kinds_in) {
      if (const SchemaNode* kind = kind_of(schema, value)) visit(value, *kind, place);
    }
    for (const Entry& entry : *value.map()) {
      if (const SchemaNode* property = schema.property(entry.key)) {
        visit(entry.value, *property, place.below(entry));
        continue;
      }
      if (schema.additional_properties) visit(entry.value, *schema.additional_properties, place.below(entry));
    }
  }

  /// The first alternative that fits is the one meant: what is built comes before what is not.
  void visit_alternative(const Value& value, const std::vector<const SchemaNode*>& group, const Place& place) {
    const auto fits = [&](const SchemaNode* part) { return check(value, *part, place.items).empty(); };
    const auto found = std::ranges::find_if(group, fits);
    if (found == group.end()) return;
    const std::size_t before = uses.size();
    visit(value, **found, place);
    if (uses.size() == before || !is_planned(**found)) return;
    std::string built;
    for (const SchemaNode* part : group) {
      if (is_planned(*part)) continue;
      std::vector<std::string> examples;
      for (const Value& example : followed(*part).examples) examples.push_back(bare(example));
      const std::string taken = !followed(*part).pattern ? expected(*part) : joined(examples, 20);
      if (!taken.empty()) built += (built.empty() ? "" : ", or ") + taken;
    }
    uses.back().where = value.where;
    uses.back().message =
        in_quotes(place.key) + " cannot be " + describe(value) + " yet: this version has no code for it";
    uses.back().help = built.empty() ? "leave it out" : "it takes " + built;
  }

  void report(const Value& value, const SchemaNode& node, const Place& place) {
    const bool is_kind = followed(node).pointer.empty() && value.map();
    const Value* kind = is_kind ? value.find("kind") : nullptr;
    const std::string what = in_quotes(kind && kind->text() ? *kind->text() : place.key);
    const std::string trouble = is_kind ? " validates, but this version cannot run it yet" : " is not built yet";
    uses.push_back(
        {ErrorCode::kNotBuiltYet, place.where, place.pointer, what + trouble, is_kind ? "" : "leave it out"});
  }
};

}  // namespace

bool is_planned(const SchemaNode& node) {
  const SchemaNode* at = &node;
  while (at && !at->planned) at = at->target;
  return at != nullptr;
}

Diagnostics planned_uses(const Value& value, const SchemaNode& schema) {
  Walk walk;
  walk.visit(value, schema, {"", value.where, "", false});
  return std::move(walk.uses);
}

}  // namespace runner
