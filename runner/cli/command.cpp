#include "runner/cli/command.h"

#include <array>

namespace runner {

std::span<const Command> all_commands() {
  static constexpr std::array kCommands = {
      Command{"run", "Runs a recipe and leaves a record of it.", "retort run classify data.root=photos train.epochs=20",
              run_command},
      Command{"resume", "Continues a run that was stopped or killed, to the same result.",
              "retort resume outputs/2026-01-31/12-00-00", resume_command},
      Command{"evaluate", "Evaluates what a run has trained, on other data or with other measures.",
              "retort evaluate outputs/2026-01-31/12-00-00 data.root=photos2 evaluate.top_k=[1,5]", evaluate_command},
      Command{"predict", "Predicts what images show, with the network that a run has trained.",
              "retort predict outputs/2026-01-31/12-00-00 holiday/ cat.jpg --top 3", predict_command},
      Command{"export", "Writes what a run has trained as transformers, peft and timm load it.",
              "retort export outputs/2026-01-31/12-00-00 --adapter --out my_adapter", export_command},
      Command{"analyze", "Shows what a run has measured, and draws its curves.",
              "retort analyze outputs/2026-01-31/12-00-00", analyze_command},
      Command{"compare", "Compares runs: their results, and where their recipes differ.",
              "retort compare outputs/a outputs/b --out comparison", compare_command},
      Command{"sweep", "Lists the runs of a recipe for every combination of some values.",
              "retort sweep classify data.root=photos train.epochs=5,10 seed=range(0,3) --dry-run", sweep_command},
      Command{"plan", "Shows what memory a run would take, and whether it fits, without running it.",
              "retort plan classify data.root=photos --budget 8GiB", plan_command},
      Command{"certify", "Proves that a training's gradient is that of the whole batch, on small shapes.",
              "retort certify classify data.root=photos memory.micro_batch=8", certify_command},
      Command{"validate", "Checks a recipe and reports everything wrong with it.",
              "retort validate classify data.root=photos", validate_command},
      Command{"graph", "Draws the stages of a recipe and what flows between them.",
              "retort graph quickstart --format dot", graph_command},
      Command{"config", "Shows a recipe as composed from its groups and overrides.",
              "retort config show classify model=clip_vit_b32 --resolve", config_command},
      Command{"stages", "Lists the kinds of stages with their ports.", "retort stages", stages_command},
      Command{"schema", "Prints the JSON schema of a kind, or of recipes.", "retort schema train.supervised",
              schema_command},
      Command{"explain", "Explains an option, a kind of stage or an error.", "retort explain train.epochs",
              explain_command},
      Command{"init", "Writes a recipe to start from.", "retort init flowers.yaml", init_command},
      Command{"data", "Makes small data sets to try things out, and fetches published data and weights.",
              "retort data make image_folder --out shapes --classes 8 --per-class 100 --seed 1", data_command},
      Command{"doctor",
              "Checks this machine, the mechanisms of memory policies, or whether a recipe gives the same bits every "
              "time.",
              "retort doctor determinism classify data.root=photos", doctor_command},
      Command{"completion", "Prints the script that makes a shell complete retort's commands.",
              "retort completion bash", completion_command},
  };
  return kCommands;
}

}  // namespace runner
