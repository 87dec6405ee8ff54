#include "stages/numerics/precision_map.h"

#include <algorithm>

namespace stages {
namespace {

using PathNames = std::vector<std::string_view>;

PathNames split(std::string_view path) {
  PathNames names;
  for (std::size_t begin = 0; !path.empty() && begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    names.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

/// True if `pattern` names the module at `path` or one around it.
bool covers(const PathNames& pattern, const PathNames& path) {
  if (pattern.size() > path.size()) return false;
  return std::ranges::equal(pattern,
                            PathNames(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(pattern.size())),
                            [](std::string_view name, std::string_view own) { return name == "*" || name == own; });
}

/// Of two patterns that cover the same path.
bool is_nearer(const PathNames& a, const PathNames& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  const auto [first, other] = std::ranges::mismatch(a, b);
  return first != a.end() && *other == "*";
}

}  // namespace

bool PrecisionMap::uses(Precision precision) const {
  return base == precision || std::ranges::count(rules, precision, &PrecisionRule::precision) > 0;
}

const PrecisionRule* PrecisionMap::rule_for(std::string_view path) const {
  const PathNames names = split(path);
  const PrecisionRule* nearest = nullptr;
  for (const PrecisionRule& rule : rules) {
    const PathNames pattern = split(rule.modules);
    if (covers(pattern, names) && (!nearest || is_nearer(pattern, split(nearest->modules)))) nearest = &rule;
  }
  return nearest;
}

bool names_module(std::string_view pattern, std::string_view path) {
  const PathNames names = split(path), own = split(pattern);
  return own.size() == names.size() && covers(own, names);
}

}  // namespace stages
