{{- define "goqueue.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* Pods add their number to it, and services their purpose. */ -}}
{{- define "goqueue.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "goqueue.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "goqueue.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "goqueue.selector" -}}
app.kubernetes.io/name: {{ include "goqueue.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "goqueue.labels" -}}
{{ include "goqueue.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "goqueue.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "goqueue.headless" -}}
{{ include "goqueue.fullname" . }}-nodes
{{- end -}}

{{- define "goqueue.domain" -}}
{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end -}}

{{- define "goqueue.keysSecret" -}}
{{ .Values.auth.existingSecret | default (printf "%s-keys" (include "goqueue.fullname" .)) }}
{{- end -}}

{{- define "goqueue.tlsSecret" -}}
{{ .Values.tls.existingSecret | default (printf "%s-tls" (include "goqueue.fullname" .)) }}
{{- end -}}

{{- define "goqueue.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "goqueue.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- define "goqueue.scheme" -}}
{{ ternary "https" "http" .Values.tls.enabled }}
{{- end -}}

{{- define "goqueue.url" -}}
{{ include "goqueue.scheme" . }}://{{ include "goqueue.fullname" . }}.{{ include "goqueue.domain" . }}:8080
{{- end -}}

{{- /* The names by which clients call the servers, as a list in JSON. */ -}}
{{- define "goqueue.hosts" -}}
{{- $hosts := list -}}
{{- range $service := list (include "goqueue.fullname" .) (printf "*.%s" (include "goqueue.headless" .)) -}}
{{- range $suffix := list "" (printf ".%s" $.Release.Namespace) (printf ".%s.svc" $.Release.Namespace) (printf ".%s" (include "goqueue.domain" $)) -}}
{{- $hosts = append $hosts (printf "%s%s" $service $suffix) -}}
{{- end -}}
{{- end -}}
{{- range $each := list .Values.ingress.http .Values.ingress.grpc -}}
{{- if $each.enabled -}}{{- $hosts = append $hosts $each.host -}}{{- end -}}
{{- end -}}
{{- concat $hosts .Values.tls.extraNames | uniq | toJson -}}
{{- end -}}

{{- /* Every process of the chart runs as the image's user, on a root that cannot be written. */ -}}
{{- define "goqueue.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "goqueue.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- /* What `goqueue` needs to reach the servers as an administrator, from another pod. */ -}}
{{- define "goqueue.clientEnv" -}}
- { name: GOQUEUE_SERVER, value: {{ include "goqueue.url" . | quote }} }
{{- if .Values.tls.enabled }}
- { name: SSL_CERT_FILE, value: /etc/goqueue/tls/ca.crt }
{{- end }}
{{- end -}}

{{- define "goqueue.authorityVolume" -}}
- name: tls
  secret:
    secretName: {{ include "goqueue.tlsSecret" . }}
    items: [{ key: ca.crt, path: ca.crt }]
{{- end -}}
