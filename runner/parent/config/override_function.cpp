#include "runner/parent/config/override_function.h"

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <map>

#include "runner/parent/config/cast.h"
#include "runner/parent/config/number_range.h"
#include "runner/parent/config/override_value.h"
#include "runner/parent/config/value_order.h"
#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

[[noreturn]] void fail_call(Location where, std::string message, std::string help = "") {
  fail_override(where, std::move(message), std::move(help), ErrorCode::kBadFunctionCall);
}

bool is_number(const Value& value) {
  return std::holds_alternative<std::int64_t>(value.data) ||
         std::holds_alternative<double>(value.data) || std::holds_alternative<bool>(value.data) ||
         value.form == ScalarForm::kBigInteger;
}
bool is_text(const Value& value) { return value.text() && value.form != ScalarForm::kBigInteger; }
bool is_choice(const Sweep& sweep) {
  return sweep.kind == Sweep::Kind::kSimpleChoice || sweep.kind == Sweep::Kind::kChoice;
}

/// Describes an argument for a message: "the text 'a'", "a range".
std::string described(const Element& element) {
  if (const Value* value = element.value()) return describe(*value);
  if (!element.sweep()) return "a change";
  switch (element.sweep()->kind) {
    case Sweep::Kind::kSimpleChoice:
    case Sweep::Kind::kChoice:
      return "a choice";
    case Sweep::Kind::kRange:
      return "a range";
    case Sweep::Kind::kInterval:
      return "an interval";
    case Sweep::Kind::kGlob:
      return "a glob";
    case Sweep::Kind::kZip:
      return "a zip";
  }
  return "";
}

/// The arguments of a call by parameter name; missing ones are null.
class Parameters {
 public:
  /// Unnamed arguments are assigned to `names` in the order given, but never to `only_named`.
  Parameters(FunctionCall& call, std::initializer_list<std::string_view> names,
             std::initializer_list<std::string_view> only_named = {})
      : call_(call) {
    if (call.arguments.size() > names.size() && names.size() > 0) {
      fail_call(call.arguments[names.size()].where,
                call.name + "() takes at most " + std::to_string(names.size()) +
                    (names.size() == 1 ? " argument" : " arguments"));
    }
    if (names.size() > 0) {
      for (std::size_t i = 0; i < call.arguments.size(); ++i)
        given_[std::string(names.begin()[i])] = &call.arguments[i];
    }
    std::vector<std::string> known(names.begin(), names.end());
    known.insert(known.end(), only_named.begin(), only_named.end());
    for (auto& [name, element] : call.named) {
      const auto found = std::ranges::find(known, name);
      if (found == known.end()) {
        fail_call(element.where, call.name + "() has no argument '" + name + "'",
                  did_you_mean(name, known));
      }
      if (static_cast<std::size_t>(found - known.begin()) <
          std::min(call.arguments.size(), names.size())) {
        fail_call(element.where, call.name + "() is given '" + name + "' twice");
      }
      given_[name] = &element;
    }
  }

  Element* find(std::string_view name) const {
    const auto found = given_.find(name);
    return found == given_.end() ? nullptr : found->second;
  }
  Element& at(std::string_view name) const {
    if (Element* element = find(name)) return *element;
    fail_call(call_.where, call_.name + "() needs the argument '" + std::string(name) + "'");
  }
  /// Returns the argument `name`; null if it is absent or is the value null.
  Element* optional(std::string_view name) const {
    Element* element = find(name);
    return element && element->value() && element->value()->is_null() ? nullptr : element;
  }
  Value number(Element& element) const {
    if (!element.value() || !is_number(*element.value())) {
      fail_call(element.where, call_.name + "() takes numbers, but this is " + described(element));
    }
    return std::move(*element.value());
  }

 private:
  FunctionCall& call_;
  std::map<std::string, Element*, std::less<>> given_;
};

Element choice(FunctionCall call) {
  Parameters(call, {}, {});
  if (call.arguments.empty())
    fail_call(call.where, "choice() needs at least one value", "write choice(a,b)");
  Sweep* only = call.arguments.size() == 1 ? call.arguments[0].sweep() : nullptr;
  if (only && only->kind == Sweep::Kind::kSimpleChoice) {
    only->kind = Sweep::Kind::kChoice;
    return std::move(call.arguments[0]);
  }
  Sweep result{.kind = Sweep::Kind::kChoice, .where = call.where};
  for (Element& argument : call.arguments) {
    result.choices.push_back(plain_value(std::move(argument)));
    if (result.choices.back().is_null()) {
      fail_call(result.choices.back().where, "choice() does not accept null",
                "without choice(), null can be listed: a=null,1");
    }
  }
  return {std::move(result), call.where};
}

Element range(FunctionCall call) {
  const Parameters parameters(call, {"start", "stop", "step"});
  Sweep result{.kind = Sweep::Kind::kRange, .where = call.where};
  result.start = parameters.number(parameters.at("start"));
  if (Element* stop = parameters.optional("stop")) {
    result.stop = parameters.number(*stop);
  } else {
    result.stop = std::exchange(result.start, {std::int64_t{0}, call.where});
  }
  Element* step = parameters.find("step");
  result.step = step ? parameters.number(*step) : Value{std::int64_t{1}, call.where};
  return {std::move(result), call.where};
}

Element interval(FunctionCall call) {
  const Parameters parameters(call, {"start", "end"});
  Sweep result{.kind = Sweep::Kind::kInterval, .where = call.where};
  const auto real = [&](std::string_view name) {
    return *cast({"float", call.where, {{parameters.number(parameters.at(name)), call.where}}})
                .value();
  };
  result.start = real("start");
  result.stop = real("end");
  return {std::move(result), call.where};
}

Element glob(FunctionCall call) {
  const Parameters parameters(call, {"include", "exclude"});
  const auto patterns = [&](Element& element) -> std::vector<Value> {
    Value* value = element.value();
    if (value && value->list()) return std::move(*value->list());
    if (!value || !is_text(*value))
      fail_call(element.where, "glob() takes patterns, but this is " + described(element));
    return {std::move(*value)};
  };
  Sweep result{.kind = Sweep::Kind::kGlob, .where = call.where};
  result.include = patterns(parameters.at("include"));
  if (Element* exclude = parameters.optional("exclude")) result.exclude = patterns(*exclude);
  return {std::move(result), call.where};
}

Element tag(FunctionCall call) {
  const Parameters parameters(call, {}, {"sweep"});
  if (call.arguments.empty())
    fail_call(call.where, "tag() needs a sweep", "write tag(log,interval(1,10))");
  if (Element* named = parameters.optional("sweep")) call.arguments.push_back(std::move(*named));
  Element sweep = std::move(call.arguments.back());
  call.arguments.pop_back();
  std::vector<std::string> tags;
  for (Element& argument : call.arguments) {
    Value* value = argument.value();
    if (!value || !is_text(*value))
      fail_call(argument.where, "tags are strings, but this is " + described(argument));
    if (std::ranges::find(tags, *value->text()) == tags.end())
      tags.push_back(std::move(*value->text()));
  }
  if (!sweep.sweep() || sweep.sweep()->kind == Sweep::Kind::kGlob ||
      sweep.sweep()->kind == Sweep::Kind::kZip) {
    fail_call(sweep.where,
              "the last argument of tag() must be a choice, a range or an interval, but this is " +
                  described(sweep));
  }
  sweep.sweep()->tags = std::move(tags);
  return sweep;
}

/// Returns the unnamed arguments as a simple choice: sort(3,1,2) sorts the choice 3,1,2.
Sweep simple_choice(FunctionCall& call) {
  Sweep result{.where = call.where};
  for (Element& argument : call.arguments)
    result.choices.push_back(plain_value(std::move(argument)));
  return result;
}

/// Returns the only argument of sort() or shuffle(), a sweep or a list, whether named or not; null
/// if there are several.
Element* sole_argument(FunctionCall& call, const Parameters& parameters, bool takes_zip) {
  if (Element* list = parameters.optional("list")) {
    if (!list->value() || !list->value()->list())
      fail_call(list->where, "list= takes a list, but this is " + described(*list));
    return list;
  }
  Element* sweep = parameters.optional("sweep");
  if (!sweep && call.arguments.size() == 1) {
    Element& only = call.arguments[0];
    if (only.value() && only.value()->is_null())
      fail_call(only.where, call.name + "() does not accept null");
    if (only.value()) return &only;
    sweep = &only;
  }
  if (!sweep) return nullptr;
  const bool fits = sweep->sweep() &&
                    (is_choice(*sweep->sweep()) || sweep->sweep()->kind == Sweep::Kind::kRange ||
                     (takes_zip && sweep->sweep()->kind == Sweep::Kind::kZip));
  if (!fits)
    fail_call(sweep->where,
              call.name + "() takes a choice or a range, but this is " + described(*sweep));
  return sweep;
}

Element shuffle(FunctionCall call) {
  const Parameters parameters(call, {}, {"sweep", "list"});
  Element* sole = sole_argument(call, parameters, true);
  if (!sole) {
    Sweep result = simple_choice(call);
    for (const Value& value : result.choices) {
      if (value.is_null()) fail_call(value.where, "shuffle() does not accept null");
    }
    result.shuffle = true;
    return {std::move(result), call.where};
  }
  if (Sweep* sweep = sole->sweep()) {
    sweep->shuffle = true;
    return std::move(*sole);
  }
  if (!sole->value()->list())
    return {Value{Value::List{std::move(*sole->value())}, call.where}, call.where};
  SeededOrder(0).shuffle(*sole->value()->list());
  return std::move(*sole);
}

void sort_values(std::vector<Value>& values, bool reverse) {
  std::ranges::stable_sort(values, [&](const Value& a, const Value& b) {
    const auto order = compare(a, b);
    if (!order)
      fail_call(a.where, describe(a) + " and " + describe(b) + " cannot be ordered",
                "sort numbers or strings");
    return reverse ? *order > 0 : *order < 0;
  });
}

/// Reverses `range` unless it is already in the requested direction.
void sort_range(Sweep& range, bool reverse) {
  const auto direction = compare(range.step, {std::int64_t{0}, {}});
  if ((*direction > 0) != reverse) return;
  const auto numbers = NumberRange::make(range);
  if (!numbers) throw OverrideError{numbers.errors().front()};
  if (numbers->size() > 1) range = numbers->reversed(std::move(range));
}

Element sort(FunctionCall call) {
  const Parameters parameters(call, {}, {"sweep", "list", "reverse"});
  bool reverse = false;
  if (const Element* named = parameters.find("reverse")) {
    const bool* flag = named->value() ? std::get_if<bool>(&named->value()->data) : nullptr;
    if (!flag)
      fail_call(named->where, "reverse= takes true or false, but this is " + described(*named));
    reverse = *flag;
  }
  Element* sole = sole_argument(call, parameters, false);
  if (!sole) {
    if (call.arguments.empty())
      fail_call(call.where, "sort() needs something to sort", "write sort(3,1,2)");
    Sweep result = simple_choice(call);
    sort_values(result.choices, reverse);
    return {std::move(result), call.where};
  }
  if (Sweep* sweep = sole->sweep()) {
    if (is_choice(*sweep)) sort_values(sweep->choices, reverse);
    else sort_range(*sweep, reverse);
  } else if (auto* list = sole->value()->list()) {
    sort_values(*list, reverse);
  }
  return std::move(*sole);
}

/// Evaluates append(v,..), prepend(v,..) and remove_value(v,..).
Element edit_of_values(FunctionCall call, Edit::Kind kind) {
  Parameters(call, {}, {});
  if (call.arguments.empty())
    fail_call(call.where, call.name + "() needs a value", "write " + call.name + "(1)");
  Edit edit{.kind = kind};
  for (Element& argument : call.arguments) edit.values.push_back(plain_value(std::move(argument)));
  return {std::move(edit), call.where};
}

/// Evaluates insert(index,v,..) and remove_at(index).
Element edit_of_place(FunctionCall call, Edit::Kind kind) {
  Parameters(call, {}, {});
  const bool inserts = kind == Edit::Kind::kInsert;
  const Value* index = call.arguments.empty() ? nullptr : call.arguments[0].value();
  const auto* number = index ? std::get_if<std::int64_t>(&index->data) : nullptr;
  if (!number || (inserts ? call.arguments.size() < 2 : call.arguments.size() > 1)) {
    fail_call(call.where,
              call.name + (inserts ? "() needs an index and values" : "() needs one index"),
              inserts ? "write insert(0,VALUE); indices start at 0"
                      : "write remove_at(0); -1 is the last item");
  }
  Edit edit{.kind = kind, .index = *number};
  for (std::size_t i = 1; i < call.arguments.size(); ++i)
    edit.values.push_back(plain_value(std::move(call.arguments[i])));
  return {std::move(edit), call.where};
}

Element replace(FunctionCall call) {
  Parameters(call, {}, {});
  if (call.arguments.size() != 1)
    fail_call(call.where, "replace() takes one value", "write replace({a: 1})");
  return {Edit{.kind = Edit::Kind::kReplace, .values = {plain_value(std::move(call.arguments[0]))}},
          call.where};
}

struct Function {
  std::string_view name;
  Element (*call)(FunctionCall call);
};
constexpr std::array kFunctions = {
    Function{"choice", choice},
    Function{"range", range},
    Function{"interval", interval},
    Function{"glob", glob},
    Function{"shuffle", shuffle},
    Function{"sort", sort},
    Function{"tag", tag},
    Function{"int", cast},
    Function{"float", cast},
    Function{"str", cast},
    Function{"bool", cast},
    Function{
        "append",
        [](FunctionCall call) { return edit_of_values(std::move(call), Edit::Kind::kAppend); }},
    Function{
        "prepend",
        [](FunctionCall call) { return edit_of_values(std::move(call), Edit::Kind::kPrepend); }},
    Function{"insert",
             [](FunctionCall call) { return edit_of_place(std::move(call), Edit::Kind::kInsert); }},
    Function{
        "remove_at",
        [](FunctionCall call) { return edit_of_place(std::move(call), Edit::Kind::kRemoveAt); }},
    Function{"remove_value",
             [](FunctionCall call) {
               return edit_of_values(std::move(call), Edit::Kind::kRemoveValue);
             }},
    Function{"replace", replace},
};

[[noreturn]] void fail_unknown(const FunctionCall& call) {
  const std::string message = "unknown function '" + call.name + "'";
  if (call.name == "extend_list")
    fail_call(call.where, message, "append() adds to a list: key=append(1,2)");
  if (call.name == "json_str")
    fail_call(call.where, message, "write the JSON text itself in quotes");
  std::vector<std::string> known = {"zip"};
  for (const Function& function : kFunctions) known.emplace_back(function.name);
  const std::string near_name = did_you_mean(call.name, known);
  fail_call(call.where, message,
            near_name.empty() ? "to write a string with parentheses, put it in quotes" : near_name);
}

}  // namespace

Value plain_value(Element element) {
  if (Value* value = element.value()) return std::move(*value);
  if (!element.sweep()) {
    fail_override(element.where,
                  "a function that changes a list or mapping cannot be inside a value",
                  "write it alone: key=append(1)", ErrorCode::kBadFunctionCall);
  }
  fail_override(element.where,
                described(element) + " cannot be inside a list, a mapping or another sweep",
                "sweep over the whole value: key=[1,2],[3,4]", ErrorCode::kNestedSweep);
}

Element call_function(FunctionCall call) {
  const auto found = std::ranges::find(kFunctions, call.name, &Function::name);
  if (found == kFunctions.end()) fail_unknown(call);
  const auto take_quotes_off = [](Element& element) {
    if (Value* value = element.value(); value && is_text(*value)) value->form = ScalarForm::kPlain;
  };
  for (Element& argument : call.arguments) take_quotes_off(argument);
  for (auto& [name, argument] : call.named) take_quotes_off(argument);
  return found->call(std::move(call));
}

}  // namespace runner
