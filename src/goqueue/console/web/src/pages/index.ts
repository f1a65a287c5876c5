// Every page there is. The first whose path fits is shown; those with `nav` are in the navigation,
// in this order. A page that does not exist yet is not here.
import type { IconName } from "../kit/icons";
import type { Page } from "../lib/router";
import { OverviewPage } from "./overview";
import { TopicPage } from "./topic";
import { TopicsPage } from "./topics";

export type ConsolePage = Page & {
  nav?: { label: string; icon: IconName };
  /** The path of the entry of the navigation that a page without one belongs to. */
  under?: string;
};

export const PAGES: readonly ConsolePage[] = [
  { path: "/", component: OverviewPage, nav: { label: "Overview", icon: "overview" } },
  { path: "/topics", component: TopicsPage, nav: { label: "Topics", icon: "topics" } },
  { path: "/topics/:topic", component: TopicPage, under: "/topics" },
];
