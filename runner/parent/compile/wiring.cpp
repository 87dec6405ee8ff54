#include "runner/parent/compile/wiring.h"

#include <algorithm>
#include <set>

#include "runner/shared/text/suggest.h"

namespace runner {
namespace {

class Wiring {
 public:
  Wiring(const std::vector<Draft>& drafts, std::size_t consumer, Diagnostics& errors)
      : drafts_(drafts),
        consumer_(drafts[consumer]),
        pointer_(pointer_to("", consumer_.stage->name)),
        errors_(errors) {}

  std::vector<Wire> run() {
    const Value* inputs = consumer_.stage->options.find("inputs");
    if (inputs) refuse_unknown_ports(*inputs);
    std::vector<Wire> wires;
    for (const Port& port : consumer_.kind->inputs) {
      const Value* written = inputs ? inputs->find(port.name) : nullptr;
      wires.push_back({&port, written ? by_hand(port, *written) : by_type(port)});
    }
    return wires;
  }

 private:
  void refuse_unknown_ports(const Value& inputs) {
    std::vector<std::string> names;
    for (const Port& port : consumer_.kind->inputs) names.push_back(port.name);
    for (const Entry& entry : *inputs.map()) {
      if (std::ranges::count(names, entry.key)) continue;
      fail(ErrorCode::kUnknownPort, entry.key_where, pointer_ + pointer_to("/inputs", entry.key),
           "'" + consumer_.kind->name + "' has no input port '" + entry.key + "'",
           help_for(entry.key, names, "input ports"));
    }
  }

  static std::string help_for(const std::string& word, const std::vector<std::string>& names, const std::string& what) {
    if (std::string help = did_you_mean(word, names); !help.empty()) return help;
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return what + ": " + (list.empty() ? "none" : list);
  }

  std::vector<Source> by_hand(const Port& port, const Value& written) {
    const std::string pointer = pointer_ + pointer_to("/inputs", port.name);
    std::vector<Source> sources;
    const auto add = [&](const Value& one) {
      const auto found = named(port, *one.text(), one.where, pointer);
      sources.insert(sources.end(), found.begin(), found.end());
    };
    if (const auto* list = written.list()) std::ranges::for_each(*list, add);
    else add(written);
    if (!port.many && sources.size() > 1) {
      fail(ErrorCode::kAmbiguousPort, written.where, pointer,
           "the input port '" + port.name + "' takes one output, but is given " + std::to_string(sources.size()), "");
    }
    return sources;
  }

  /// What "stage.port" names.
  std::vector<Source> named(const Port& port, const std::string& text, const Location& where,
                            const std::string& pointer) {
    const std::string stage = text.substr(0, text.find('.'));
    const std::string output = stage.size() < text.size() ? text.substr(stage.size() + 1) : "";
    std::vector<std::string> stages, outputs;
    std::vector<Source> sources;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      if (std::ranges::count(stages, drafts_[i].stage->name) == 0) stages.push_back(drafts_[i].stage->name);
      if (drafts_[i].stage->name != stage) continue;
      for (const Port& candidate : drafts_[i].kind->outputs) {
        if (std::ranges::count(outputs, candidate.name) == 0) outputs.push_back(candidate.name);
        if (candidate.name != output) continue;
        if (candidate.type != port.type) {
          fail(ErrorCode::kPortTypeMismatch, where, pointer,
               "'" + text + "' is a " + std::string(name(candidate.type)) + ", and the input port '" + port.name +
                   "' takes a " + std::string(name(port.type)),
               "");
          return {};
        }
        if (agree(drafts_[i].item, consumer_.item)) sources.push_back({i, &candidate});
      }
    }
    if (std::ranges::count(stages, stage) == 0) {
      fail(ErrorCode::kUnknownPort, where, pointer, "there is no stage '" + stage + "'",
           help_for(stage, stages, "stages"));
    } else if (std::ranges::count(outputs, output) == 0) {
      fail(ErrorCode::kUnknownPort, where, pointer, "the stage '" + stage + "' has no output port '" + output + "'",
           help_for(output, outputs, "output ports"));
    }
    return sources;
  }

  std::vector<Source> by_type(const Port& port) {
    std::vector<Source> of_type, of_name;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      if (drafts_[i].stage == consumer_.stage || !agree(drafts_[i].item, consumer_.item)) continue;
      for (const Port& output : drafts_[i].kind->outputs) {
        if (output.type != port.type) continue;
        of_type.push_back({i, &output});
        if (output.name == port.name) of_name.push_back({i, &output});
      }
    }
    const std::vector<Source>& sources = !of_name.empty() || port.optional ? of_name : of_type;
    if (sources.empty() && !port.optional) unwired(port);
    if (sources.size() > 1 && !port.many) ambiguous(port, sources);
    return sources;
  }

  void unwired(const Port& port) {
    fail(ErrorCode::kUnwiredPort, consumer_.stage->name_where, pointer_,
         "nothing feeds the input port '" + port.name + "': no other stage outputs a " + std::string(name(port.type)),
         "add one that does: `retort stages` lists the kinds with their outputs");
  }

  void ambiguous(const Port& port, const std::vector<Source>& sources) {
    std::string list;
    std::vector<Note> notes;
    std::set<const StageSpec*> noted;
    for (const Source& source : sources) {
      const StageSpec& stage = *drafts_[source.draft].stage;
      list += (list.empty() ? "" : ", ") + drafts_[source.draft].id + "." + source.port->name;
      if (noted.insert(&stage).second) notes.push_back({stage.name_where, "one of them is here"});
    }
    const bool from_foreach = noted.size() == 1;
    errors_.push_back({ErrorCode::kAmbiguousPort, consumer_.stage->name_where, pointer_,
                       "the input port '" + port.name + "' could take several outputs: " + list,
                       from_foreach
                           ? "give this stage the same foreach, or use a kind whose port takes many"
                           : "say which: inputs: {" + port.name + ": " + drafts_[sources.front().draft].stage->name +
                                 "." + sources.front().port->name + "}",
                       std::move(notes)});
  }

  void fail(ErrorCode code, const Location& where, const std::string& pointer, std::string message, std::string help) {
    errors_.push_back({code, where, pointer, std::move(message), std::move(help)});
  }

  const std::vector<Draft>& drafts_;
  const Draft& consumer_;
  const std::string pointer_;
  Diagnostics& errors_;
};

}  // namespace

std::vector<Wire> wire(const std::vector<Draft>& drafts, std::size_t consumer, Diagnostics& errors) {
  return Wiring(drafts, consumer, errors).run();
}

}  // namespace runner
