// Every page there is. The first whose path fits is shown; those with `nav` are in the navigation,
// in this order. A page that does not exist yet is not here.
import type { IconName } from "../kit/icons";
import type { Page } from "../lib/router";
import type { Session } from "../lib/session";
import { AccessPage } from "./access";
import { ClusterPage } from "./cluster";
import { ConfigurationPage } from "./configuration";
import { ConnectionsPage } from "./connections";
import { DeadLetterTopicPage } from "./dead-letter-topic";
import { DeadLettersPage } from "./dead-letters";
import { DelayedPage } from "./delayed";
import { GroupPage } from "./group";
import { GroupsPage } from "./groups";
import { OverviewPage } from "./overview";
import { PipelinePage, PipelinesPage } from "./pipelines";
import { QueuesPage } from "./queues";
import { SchemasPage, SubjectPage } from "./schemas";
import { TenantPage, TenantsPage } from "./tenants";
import { TopicPage } from "./topic";
import { TopicsPage } from "./topics";
import { TracePage } from "./trace";
import { TracesPage } from "./traces";
import { TransactionsPage } from "./transactions";
import { WebhookPage, WebhooksPage } from "./webhooks";

export type ConsolePage = Page & {
  nav?: { label: string; icon: IconName };
  /** The path of the entry of the navigation that a page without one belongs to. */
  under?: string;
  /** What somebody must be allowed to do for it to be in the navigation. */
  needs?: keyof Session["allowed"];
};

export const PAGES: readonly ConsolePage[] = [
  { path: "/", component: OverviewPage, nav: { label: "Overview", icon: "overview" } },
  { path: "/topics", component: TopicsPage, nav: { label: "Topics", icon: "topics" } },
  { path: "/topics/:topic", component: TopicPage, under: "/topics" },
  { path: "/groups", component: GroupsPage, nav: { label: "Groups", icon: "groups" } },
  { path: "/groups/:group", component: GroupPage, under: "/groups" },
  { path: "/queues", component: QueuesPage, nav: { label: "Queues", icon: "queues" } },
  { path: "/dead-letters", component: DeadLettersPage, nav: { label: "Dead letters", icon: "dead" } },
  { path: "/dead-letters/:topic", component: DeadLetterTopicPage, under: "/dead-letters" },
  { path: "/delayed", component: DelayedPage, nav: { label: "Delayed", icon: "delayed" } },
  { path: "/traces", component: TracesPage, nav: { label: "Traces", icon: "traces" } },
  { path: "/traces/message/:topic/:partition/:offset", component: TracePage, under: "/traces" },
  { path: "/traces/:id", component: TracePage, under: "/traces" },
  { path: "/schemas", component: SchemasPage, nav: { label: "Schemas", icon: "schemas" } },
  { path: "/schemas/:subject", component: SubjectPage, under: "/schemas" },
  { path: "/transactions", component: TransactionsPage, nav: { label: "Transactions", icon: "transactions" } },
  { path: "/pipelines", component: PipelinesPage, nav: { label: "Pipelines", icon: "pipelines" } },
  { path: "/pipelines/:pipeline", component: PipelinePage, under: "/pipelines" },
  { path: "/connections", component: ConnectionsPage, nav: { label: "Connections", icon: "connections" }, needs: "see_cluster" },
  { path: "/webhooks", component: WebhooksPage, nav: { label: "Webhooks", icon: "webhooks" }, needs: "see_cluster" },
  { path: "/webhooks/:webhook", component: WebhookPage, under: "/webhooks" },
  { path: "/tenants", component: TenantsPage, nav: { label: "Tenants", icon: "tenants" }, needs: "see_cluster" },
  { path: "/tenants/:tenant", component: TenantPage, under: "/tenants" },
  { path: "/access", component: AccessPage, nav: { label: "Access", icon: "access" }, needs: "see_cluster" },
  { path: "/cluster", component: ClusterPage, nav: { label: "Cluster", icon: "cluster" }, needs: "see_cluster" },
  { path: "/configuration", component: ConfigurationPage, nav: { label: "Configuration", icon: "configuration" }, needs: "see_cluster" },
];
