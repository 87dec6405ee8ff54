#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "stages/fetch/download.h"
#include "stages/fetch/unpack.h"

namespace stages {

/// One file of a data set, as published.
struct PublishedFile {
  std::string_view name;  ///< "102flowers.tgz"
  std::string_view url;   ///< of the folder on the server, ending in a slash
  std::string_view md5;
  std::int64_t bytes = 0;
  bool is_archive =
      false;  ///< to be unpacked; anything else lies in the data set's folder as it is
};

/// A data set that can be fetched, and by what it is known to be whole.
struct PublishedDataset {
  std::string_view name;    ///< "flowers102": of data.flowers102
  std::string_view folder;  ///< that it lies in, below the root: "flowers-102"
  std::string_view
      inner;  ///< the archive's own folder whose contents come to lie in `folder`; may be empty
  std::span<const PublishedFile> files;
  std::string_view pictures;                 ///< the folder of its images
  std::int64_t images = 0;                   ///< regular files in it, at any depth
  std::span<const std::string_view> needed;  ///< further files
  UnpackLimits limits;
};

/// Those that are known, sorted by name.
std::span<const PublishedDataset> published_datasets();
/// Null where there is none of that name.
const PublishedDataset* find_published(std::string_view name);

/// Does `folder` hold all of it? Looks at names and their number alone.
bool is_whole(const PublishedDataset& dataset, const std::filesystem::path& folder);

struct DatasetWish {
  std::filesystem::path root;  ///< the data set comes to lie in root/<its folder>
  std::vector<std::filesystem::path> files =
      {};                ///< that are here already and need not be fetched; told by their sums
  std::string url = {};  ///< of a folder on another server; empty: where it is published
};

struct FetchedDataset {
  std::filesystem::path folder;
  bool was_there = false;
  std::int64_t received = 0;  ///< bytes that came over the net
  std::int64_t files = 0;     ///< that it consists of
};

/// Fetches a data set, checks and unpacks it. Its folder appears when it is whole, or not at all;
/// until then what has come lies in <root>/.<folder>.fetch, where the next call continues. A data
/// set that is there is left alone. Throws runner::StageError: what download() and unpack() do,
/// kFolderExists where something else has its name; and runner::Cancelled.
FetchedDataset fetch_published(const PublishedDataset& dataset, const DatasetWish& wish,
                               const FetchCallbacks& callbacks, const Patience& patience = {},
                               runner::Storage& storage = runner::disk());

/// Does the data set `name`, one of published_datasets(), lie in `root` or in its folder below? One
/// that has the data set's files beside its images is taken as it is, even if it is incomplete: its
/// reader checks it.
bool has_dataset(std::string_view name, const std::filesystem::path& root);

/// For a data stage with `download: true`: fetches the data set where it is not there
/// (has_dataset).
void fetch_dataset(std::string_view name, const std::filesystem::path& root,
                   const FetchCallbacks& callbacks);

}  // namespace stages
