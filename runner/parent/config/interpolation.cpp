#include "runner/parent/config/interpolation.h"

#include <algorithm>
#include <utility>

#include "runner/parent/config/defaults_item.h"
#include "runner/parent/config/interpolation_parser.h"
#include "runner/parent/config/scalar.h"

namespace runner {
namespace {

constexpr int kDeepestReference = 200;
constexpr std::size_t kMaxCost = 100'000;
constexpr std::string_view kAliases = "aliases";

/// Marks `result`, the resolved value of `written`, as a secret if `written` is one (secret.h).
std::optional<Value> as_secret_as(const Value& written, std::optional<Value> result) {
  if (!result || written.secret_as.empty()) return result;
  // If records show the interpolation as written, only the strings in its target need the mark,
  // because they may come from the environment.
  const bool shows_itself = written.says(written.secret_as);
  for_all(*result, [&](Value& part) {
    if (!shows_itself || part.text()) part.secret_as = written.secret_as;
  });
  return result;
}

}  // namespace

Value resolve_interpolations(const Value& document, const InterpolationSources& sources,
                             Diagnostics& found) {
  return InterpolationPass(document, sources, found).resolve_all();
}

Value as_unresolved(Value resolved) {
  const auto escape = [](Value& part) {
    if (is_interpolation(part) && !holds_item(*part.reveal())) part.data = escaped(*part.reveal());
  };
  if (!resolved.map()) for_all(resolved, escape);
  else
    for (Entry& entry : *resolved.map())
      if (entry.key != kAliases) for_all(entry.value, escape);  // aliases are not resolved either
  return resolved;
}

Value InterpolationPass::resolve_all() {
  Resolved result = resolve(root_);
  return result ? *std::move(result) : Value{nullptr, document_.where};
}

void InterpolationPass::error(const Scope& scope, ErrorCode code, std::string message,
                              std::string help) {
  found_.push_back(
      {code, scope.value->where, pointer_of(scope), std::move(message), std::move(help)});
}

bool InterpolationPass::exhausted(const Scope& scope, std::size_t added) {
  cost_ += added;
  if (cost_ <= kMaxCost && depth_ <= kDeepestReference) return false;
  if (!std::exchange(stopped_, true)) {
    if (depth_ > kDeepestReference) {
      error(scope, ErrorCode::kNestingTooDeep, "interpolations are more than 200 levels deep");
    } else {
      error(scope, ErrorCode::kAliasBomb, "interpolations expand to more than 100000 values");
    }
  }
  return true;
}

InterpolationPass::Resolved InterpolationPass::resolve(const Scope& scope) {
  ++depth_;
  Resolved result = stopped_ || exhausted(scope, 0) ? std::nullopt : resolve_within(scope);
  --depth_;
  return result;
}

InterpolationPass::Resolved InterpolationPass::resolve_within(const Scope& scope) {
  const Value& value = *scope.value;
  if (is_interpolation(value)) {
    const Value* resolved = remembered(scope);
    return resolved ? Resolved(*resolved) : std::nullopt;
  }
  if (!value.list() && !value.map()) return value;
  bool failed = false;
  Value result{nullptr, value.where};
  const auto resolve_child = [&](const Value& below, std::string key) {
    if (!scope.parent && key == kAliases)
      return below;  // strings with overrides; they are resolved where they are used
    Resolved resolved = resolve({&below, std::move(key), &scope});
    failed = failed || !resolved;
    return resolved ? *std::move(resolved) : Value{nullptr, below.where};
  };
  if (const auto* list = value.list()) {
    Value::List items;
    for (const Value& item : *list)
      items.push_back(resolve_child(item, std::to_string(items.size())));
    result.data = std::move(items);
  } else {
    Value::Map entries;
    for (const Entry& entry : *value.map()) {
      entries.push_back(
          {entry.key, entry.key_where, resolve_child(entry.value, entry.key), entry.key_type});
    }
    result.data = std::move(entries);
  }
  return failed ? std::nullopt : Resolved(std::move(result));
}

const Value* InterpolationPass::remembered(const Scope& scope) {
  const auto [entry, is_new] = memos_.try_emplace(scope.value);
  Memo& memo = entry->second;  // the reference remains valid when other entries are added
  if (is_new) {
    active_.push_back(&scope);
    memo.value = resolve_text(*scope.value, scope);
    // The user wrote the interpolation, so its value is not a default, even if its target is.
    if (memo.value) for_all(*memo.value, [](Value& part) { part.is_default = false; });
    memo.active = false;
    active_.pop_back();
  } else if (memo.active) {
    report_cycle(scope);
  }
  return memo.value ? &*memo.value : nullptr;
}

void InterpolationPass::report_cycle(const Scope& scope) {
  const auto start = std::ranges::find(active_, scope.value, &Scope::value);
  std::string chain;
  for (auto step = start; step != active_.end(); ++step) chain += dotted_path(**step) + " -> ";
  const std::string name = dotted_path(**start);
  error(**start, ErrorCode::kInterpolationCycle, "'" + name + "' refers to itself: " + chain + name,
        "give one of them its own value");
}

InterpolationPass::Resolved InterpolationPass::resolve_text(const Value& value, const Scope& scope,
                                                            bool is_argument) {
  const std::string& text = *value.reveal();
  TextPieces pieces;
  try {
    pieces = parse_interpolations(text);
  } catch (const InterpolationSyntaxError& syntax) {
    error(scope, ErrorCode::kInterpolationSyntax,
          "cannot read " + describe(value) + ": " + syntax.message, syntax.help);
    return std::nullopt;
  }
  if (is_argument && refuses_item(pieces, scope, "be the argument of a resolver"))
    return std::nullopt;
  const bool stays_text = is_argument && value.form != ScalarForm::kPlain;  // was quoted
  if (pieces.size() == 1 && !stays_text) {
    if (const auto* alone = std::get_if<std::unique_ptr<Interpolation>>(&pieces[0])) {
      Resolved result = evaluate(**alone, scope);
      if (result) result->where = scope.value->where;
      return as_secret_as(value, std::move(result));
    }
  }
  return as_secret_as(value, join(pieces, scope, text));
}

InterpolationPass::Resolved InterpolationPass::join(const TextPieces& pieces, const Scope& scope,
                                                    const std::string& written) {
  constexpr std::size_t kMaxText = 1u << 20;
  Value result{std::string(), scope.value->where};
  std::string& text = std::get<std::string>(result.data);
  std::string reread;  // a string that compile() will parse again, for ${item.x}
  bool is_read_again = false;
  const auto add = [&](const std::string& part, bool has_item) {
    text += part;
    reread += has_item ? part : escaped(part);
    is_read_again = is_read_again || has_item;
  };
  bool failed = false, is_missing = false;
  for (const TextPiece& piece : pieces) {
    if (const auto* literal = std::get_if<std::string>(&piece)) {
      add(*literal, false);
      continue;
    }
    const Interpolation& inner = *std::get<std::unique_ptr<Interpolation>>(piece);
    const Resolved value = evaluate(inner, scope);
    if (!value) {
      failed = true;
    } else if (value->list() || value->map()) {
      error(scope, ErrorCode::kInterpolationSyntax,
            quoted_reference(inner) + " is a " + std::string(type_name(*value)) +
                " and cannot be inside a string",
            "refer to one of its values instead");
      failed = true;
    } else {
      is_missing = is_missing || is_mandatory(*value);
      if (!value->secret_as.empty()) result.secret_as = written;
      add(revealed_text(*value), is_interpolation(*value) && holds_item(*value->reveal()));
    }
    if (text.size() > kMaxText) {
      error(scope, ErrorCode::kAliasBomb,
            "the string is longer than a megabyte once its interpolations are resolved");
      return std::nullopt;
    }
  }
  if (is_read_again) text = std::move(reread);
  if (is_missing) text = "???";
  return failed || exhausted(scope, copy_cost(result)) ? std::nullopt : Resolved(std::move(result));
}

InterpolationPass::Resolved InterpolationPass::evaluate(const Interpolation& interpolation,
                                                        const Scope& scope) {
  if (is_item(interpolation)) return Value{interpolation.written, scope.value->where};
  Resolved value =
      interpolation.resolver.empty() ? look_up(interpolation, scope) : call(interpolation, scope);
  if (!value || exhausted(scope, copy_cost(*value))) return std::nullopt;
  return value;
}

bool InterpolationPass::refuses_item(const TextPieces& pieces, const Scope& scope,
                                     const std::string& use) {
  if (!keeps_item(pieces)) return false;
  for (const TextPiece& piece : pieces) {
    const auto* inner = std::get_if<std::unique_ptr<Interpolation>>(&piece);
    if (!inner || !is_item(**inner)) continue;
    error(scope, ErrorCode::kInterpolationSyntax, quoted_reference(**inner) + " cannot " + use,
          "write it outside of other interpolations: an item is known only after composition");
  }
  return true;
}

InterpolationPass::Resolved InterpolationPass::resolve_written(const Value& written,
                                                               const Scope& scope) {
  if (stopped_ || exhausted(scope, 1)) return std::nullopt;
  if (is_interpolation(written)) {
    ++depth_;
    Resolved result =
        stopped_ || exhausted(scope, 0) ? std::nullopt : resolve_text(written, scope, true);
    --depth_;
    return result;
  }
  Value result = written;
  if (result.form != ScalarForm::kBigInteger) result.form = ScalarForm::kPlain;
  result.where = scope.value->where;
  bool failed = false;
  const auto resolve_part = [&](Value& part) {
    Resolved resolved = resolve_written(part, scope);
    failed = failed || !resolved;
    if (resolved) part = *std::move(resolved);
  };
  if (auto* list = result.list()) std::ranges::for_each(*list, resolve_part);
  if (auto* map = result.map()) {
    for (Entry& entry : *map) resolve_part(entry.value);
  }
  return failed ? std::nullopt : Resolved(std::move(result));
}

}  // namespace runner
