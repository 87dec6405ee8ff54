#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "runner/stage/run_context.h"
#include "stages/data/image_list.h"
#include "stages/fetch/callbacks.h"

namespace stages {

/// The list of a published data set, which a stage makes when it is created, or where the data set is to be fetched
/// first, when it runs.
class FetchedList {
 public:
  using Lister = std::function<runner::Result<ImageList>()>;
  using Fetcher = std::function<void(const FetchCallbacks&)>;

  /// Lists at once unless the data set is `download`ed and not there yet.
  FetchedList(std::string_view name, const std::filesystem::path& root, bool download, Lister lister);
  /// The same for another way of fetching.
  FetchedList(bool is_to_be_fetched, Fetcher fetcher, Lister lister);

  /// What is wrong with what is there.
  const runner::Diagnostics& problems() const { return problems_; }
  /// Null where there are problems, or nothing has been fetched yet.
  const ImageList* get() const { return list_ ? &*list_ : nullptr; }
  /// The list, of which there were no problems; fetches the data set first. Throws what fetching throws, and
  /// runner::StageError with the first problem of what was fetched.
  const ImageList& get(runner::RunContext& context);

 private:
  void list();

  Fetcher fetcher_;
  Lister lister_;
  runner::Diagnostics problems_;
  std::optional<ImageList> list_;
};

}  // namespace stages
